"""Cooldowns of campaigns over HTTP: late events, cancelled and returned orders, all ways of tracking."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from domain.calendar import instant_text
from tests.builders.campaigns import effect, mint
from tests.builders.queue import drain, send
from tests.builders.statements import count
from tests.builders.tracking import GENERIC, ORDER_CREATED, WHOLE_DOLLARS, Shop, event, order, order_update, running

# In the past, as dates of events must be; campaigns do not compare it with the enrolment.
TEN_O_CLOCK = datetime(2026, 3, 2, 10, tzinfo=UTC)
COOLDOWN = "/problems/cooldown"


@pytest.fixture
def shop(organization):
    shop = Shop(organization)
    yield shop
    shop.check_ledger()


@pytest.fixture
def member(shop):
    return shop.member()


@pytest.fixture
def daily_campaign(shop):
    """A campaign that gives a member 5 points, at most once in 24 hours."""
    return shop.campaign(running(mint(5)), eventType=GENERIC, cooldown="PT24H")


def at(moment):
    """The field of an event that happened at this moment."""
    return {"externalEventDate": instant_text(moment)}


def status_and_problem(result):
    """The status of the only effect of an event, and the type of its error if it has one."""
    [outcome] = result["effects"]
    return outcome["status"], outcome.get("error", {}).get("type")


EXECUTED, SKIPPED = ("executed", None), ("skipped", COOLDOWN)


def test_a_day_must_pass_between_two_events_and_late_events_are_no_exception(shop, member, daily_campaign):
    assert daily_campaign["cooldown"] == "PT24H"

    def track(moment):
        """Track an event of this moment; return its status and problem."""
        return status_and_problem(shop.track_one(event(member, **at(moment))))

    assert track(TEN_O_CLOCK) == EXECUTED
    assert track(TEN_O_CLOCK + timedelta(hours=23, minutes=59, seconds=59)) == SKIPPED
    assert track(TEN_O_CLOCK + timedelta(hours=24)) == EXECUTED
    # Three hours before the first event, which was evaluated earlier.
    assert track(TEN_O_CLOCK - timedelta(hours=3)) == SKIPPED
    assert track(TEN_O_CLOCK - timedelta(hours=24)) == EXECUTED
    assert shop.balance(member) == 3 * 5
    # Each member has a separate cooldown.
    assert status_and_problem(shop.track_one(event(shop.member(), **at(TEN_O_CLOCK)))) == EXECUTED


def test_cooldowns_cover_events_of_one_call_and_queued_and_captured_ones(shop, member, daily_campaign):
    results = shop.track(*(event(member, **at(TEN_O_CLOCK + timedelta(hours=hours))) for hours in (0, 12, 24, 25)))
    assert [*map(status_and_problem, results)] == [EXECUTED, SKIPPED, EXECUTED, SKIPPED]
    send(
        shop,
        event(member, **at(TEN_O_CLOCK + timedelta(hours=26))),
        event(member, **at(TEN_O_CLOCK + timedelta(hours=48))),
    )
    drain(shop)
    # 5 points at 0, 24 and 48 hours.
    assert shop.balance(member) == 3 * 5
    for hours in (71, 72):
        captured_event = event(member, **at(TEN_O_CLOCK + timedelta(hours=hours)))
        event_key = shop.track_one(captured_event, executionMode="captureOnly")["loyaltyEventKey"]
        shop.administration.post(f"/events/{event_key}/evaluate", expect=200)
    # 72 is a day after 48, and 90 is less than a day after 72.
    assert shop.balance(member) == 4 * 5
    assert status_and_problem(shop.track_one(event(member, **at(TEN_O_CLOCK + timedelta(hours=90))))) == SKIPPED


def test_a_dry_run_explains_a_cooldown_and_starts_none(shop, member, daily_campaign):
    for _ in range(2):
        [dry_result] = shop.track(event(member, **at(TEN_O_CLOCK)), executionMode="dryRun")
        assert status_and_problem(dry_result) == ("evaluated", None)
    shop.track_one(event(member, **at(TEN_O_CLOCK)))
    [dry_result] = shop.track(event(member, **at(TEN_O_CLOCK + timedelta(hours=1))), executionMode="dryRun")
    assert status_and_problem(dry_result) == SKIPPED
    [reason] = [explanation["reason"] for explanation in dry_result["explain"] if explanation["actionId"] is not None]
    assert (reason["code"], reason["actual"]) == ("COOLDOWN", "2026-03-02T10:00:00Z")
    assert reason["label"] == "The campaign had an effect at 2026-03-02T10:00:00Z, and its cooldown is PT24H."


def test_an_authorized_event_starts_a_cooldown(shop, member, daily_campaign):
    result = shop.track_one(event(member, **at(TEN_O_CLOCK)), executionMode="authorize")
    assert status_and_problem(result) == ("authorized", None)
    assert status_and_problem(shop.track_one(event(member, **at(TEN_O_CLOCK + timedelta(hours=1))))) == SKIPPED


@pytest.mark.parametrize("way", ["cancelEvent", "cancelled", "returned", "partially-returned"])
def test_an_undone_order_ends_its_cooldown_unless_a_part_was_returned(shop, member, way):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED, cooldown="P1D")
    first_result = shop.track_one(order(member, 10, external_id="one", **at(TEN_O_CLOCK)))
    if way == "cancelEvent":
        shop.integration.post(f"/events/{first_result['loyaltyEventKey']}/cancel", {}, expect=200)
    else:
        if "returned" in way:
            shop.track_one(order_update(member, "one", "confirmed"))
        items = {"items": [{"total": Decimal(4)}]} if way == "partially-returned" else {}
        shop.track_one(order_update(member, "one", way, **items))
    second_order = order(member, 3, external_id="two", **at(TEN_O_CLOCK + timedelta(hours=1)))
    second_result = shop.track_one(second_order)
    # A point for each whole dollar of the first order that was not returned, or of the second order.
    if way == "partially-returned":
        assert status_and_problem(second_result) == SKIPPED
        assert shop.balance(member) == 10 - 4
    else:
        assert status_and_problem(second_result) == EXECUTED
        assert shop.balance(member) == 3


def test_an_order_cancelled_in_the_same_call_ends_its_cooldown(shop, member):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED, cooldown="P1D")
    first_order, second_order, third_order = (
        order(member, 3, external_id=name, **at(TEN_O_CLOCK)) for name in ("one", "two", "three")
    )
    cancellation = order_update(member, "one", "cancelled")
    results = shop.track(first_order, second_order, cancellation, third_order)
    # The cancellation has no effects.
    assert [status_and_problem(result) for result in results if result["effects"]] == [EXECUTED, SKIPPED, EXECUTED]
    # A point for each whole dollar of the third order.
    assert shop.balance(member) == 3


def test_a_cooldown_skips_all_effects_of_its_campaign_and_none_of_other_campaigns(shop, member, daily_campaign):
    shop.campaign(running(mint(1), effect("notify", name="Hello")), eventType=GENERIC, cooldown="P1W")
    shop.campaign(running(mint(100)), eventType=GENERIC)
    shop.track_one(event(member, **at(TEN_O_CLOCK)))
    outcomes = shop.track_one(event(member, **at(TEN_O_CLOCK + timedelta(days=3))))["effects"]
    # The daily campaign, two effects of the weekly one, and the campaign without a cooldown.
    assert [(outcome["effectId"], outcome["status"]) for outcome in outcomes] == [
        ("mint-points", "executed"),
        ("mint-points", "skipped"),
        ("notify", "skipped"),
        ("mint-points", "executed"),
    ]


def test_a_cooldown_that_is_added_later_ignores_earlier_events(shop, member):
    campaign = shop.campaign(running(mint(5)), eventType=GENERIC)
    shop.track_one(event(member, **at(TEN_O_CLOCK)))
    body = {"code": campaign["code"], "name": campaign["name"], "eventType": GENERIC, "cooldown": "P1D"}
    shop.administration.put(f"/campaigns/{campaign['campaignId']}", body)
    assert [status_and_problem(shop.track_one(event(member, **at(TEN_O_CLOCK)))) for _ in range(2)] == [
        EXECUTED,
        SKIPPED,
    ]
    shop.administration.put(f"/campaigns/{campaign['campaignId']}", {**body, "cooldown": None})
    assert status_and_problem(shop.track_one(event(member, **at(TEN_O_CLOCK)))) == EXECUTED


def test_the_number_of_statements_does_not_depend_on_the_number_of_events(shop, member, daily_campaign):
    shop.track_one(event(member, **at(TEN_O_CLOCK)))

    def count_statements(number):
        """Track this number of events, none during a cooldown; return the number of statements."""
        events = [event(member, **at(TEN_O_CLOCK + timedelta(days=2 * n + 2))) for n in range(number)]
        return count(shop.engine, lambda: shop.track(*events))

    assert count_statements(10) == count_statements(20)
