"""Statements about triggers: one for each kind of message of any number of events, none if no trigger subscribes."""

from __future__ import annotations

import pytest

from tests.builders.campaigns import effect
from tests.builders.queue import drain, send
from tests.builders.statements import count_statements
from tests.builders.tracking import GENERIC, Shop, event, order, running
from tests.builders.triggers import add_trigger, trigger_body


@pytest.fixture
def shop(api):
    shop = Shop(api.organization())
    shop.campaign(running(effect("notify", name="cake")))
    return shop


def statements_about_triggers(shop, call):
    """The statements of a call that are about triggers, and the number of all its statements."""
    with count_statements(shop.organization.api.engine) as statements:
        call()
    return [statement for statement in statements if "trigger" in statement], len(statements)


def batch(member, size):
    """As many generic events and as many orders of a member."""
    return [*(event(member) for _ in range(size)), *(order(member) for _ in range(size))]


def test_events_without_a_subscribed_trigger_take_no_statement_about_triggers(shop):
    member = shop.organization.member()
    shop.track(*batch(member["loyaltyMemberId"], 2))

    def track_and_change_member():
        shop.track(*batch(member["loyaltyMemberId"], 5))
        shop.administration.patch(f"/members/{member['memberId']}", {"memberType": "vip"})

    assert statements_about_triggers(shop, track_and_change_member)[0] == []
    # Also if triggers subscribe to other messages, or are inactive.
    add_trigger(shop.administration, "AsyncTrackWebhook")
    add_trigger(shop.administration, "EntityChangeWebhook", entities=["coupon-book"])
    inactive_trigger = add_trigger(shop.administration)
    body = trigger_body(key=inactive_trigger["triggerKey"], active=False)
    shop.administration.put(f"/triggers/{inactive_trigger['triggerId']}", body)
    shop.track(event(member["loyaltyMemberId"]))
    assert statements_about_triggers(shop, track_and_change_member)[0] == []


def test_any_number_of_events_takes_one_statement_for_each_kind_of_message(shop):
    member = shop.member()
    for _ in range(2):
        add_trigger(shop.administration)
        add_trigger(shop.administration, "EntityChangeWebhook")
    shop.track(*batch(member, 2))
    statements_of_few, total_of_few = statements_about_triggers(shop, lambda: shop.track(*batch(member, 1)))
    statements_of_many, total_of_many = statements_about_triggers(shop, lambda: shop.track(*batch(member, 50)))
    # The events, the orders, the notifications.
    assert len(statements_of_few) == len(statements_of_many) == 3
    assert total_of_many == total_of_few
    # At least the messages of three kinds about 50 events, each to two triggers.
    [(delivery_count,)] = shop.rows("trigger_deliveries", "count(*)")
    assert delivery_count > 2 * 3 * 50


def test_asynchronous_tracking_takes_as_many_statements_for_1_event_as_for_40(shop):
    member = shop.member()
    add_trigger(shop.administration, "AsyncTrackWebhook")
    add_trigger(shop.administration, eventTypes=[GENERIC])

    def cost(size):
        send(shop, *(event(member) for _ in range(size)))
        return len(statements_about_triggers(shop, lambda: drain(shop))[0])

    cost(1)
    assert cost(1) == cost(40)
