"""Statements about referrals: none for events that no program reacts to, the same number for 2 events and for 50."""

from __future__ import annotations

import pytest

from tests.builders.referrals import Friends
from tests.builders.statements import count, count_statements
from tests.builders.tracking import Shop, event, order, order_update


@pytest.fixture
def shop(api):
    return Shop(api.organization())


def referral_events(shop, friends, size):
    """Events of new members, each with the referral code of another new member."""
    owners = [shop.member() for _ in range(size)]
    codes = [friends.codes(owner)[0]["code"] for owner in owners]
    return [event(shop.member(), payload={"referralCode": code}) for code in codes]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["full", "dryRun"])
def test_referrals_cost_as_many_statements_for_2_events_as_for_50(shop, mode):
    friends = Friends(shop)
    shop.track(*referral_events(shop, friends, 2))

    def cost(size):
        batch = referral_events(shop, friends, size)
        with count_statements(shop.organization.api.engine) as statements:
            results = shop.track(*batch, executionMode=mode)
        assert {result["referrals"][0]["status"] for result in results} == {"applied"}
        return len(statements)

    assert len({cost(size) for size in (2, 10, 50)}) == 1


def test_cancelling_orders_with_referrals_costs_as_many_statements_for_1_order_as_for_20(shop):
    friends = Friends(shop, eventType="member-purchase-order-created")
    code = friends.code(shop.member())
    members = [shop.member() for _ in range(22)]
    shop.track(*(order(member, external_id=f"o-{n}", referralCode=code) for n, member in enumerate(members)))

    def cost(numbers):
        """The statements that cancel the orders with these numbers."""
        events = [order_update(members[n], f"o-{n}", "cancelled") for n in numbers]
        return count(shop.organization.api.engine, lambda: shop.track(*events))

    cost([0])
    assert cost([1]) == cost(range(2, 22))
    assert friends.usages() == {code: 0}


def test_events_that_no_active_program_reacts_to_take_no_statement_about_referrals(shop):
    member = shop.member()
    shop.track(event(member))
    cost_without_programs = count(shop.organization.api.engine, lambda: shop.track(event(member)))
    Friends(shop, eventType="member-updated")
    Friends(shop, active=False)
    shop.track(event(member))
    assert count(shop.organization.api.engine, lambda: shop.track(event(member))) == cost_without_programs
    with count_statements(shop.organization.api.engine) as statements:
        shop.track(event(member))
    assert not any("referral_codes" in statement or "referral_logs" in statement for statement in statements)


def test_an_event_without_a_code_takes_one_more_statement_if_a_program_reacts_to_it(shop):
    member = shop.member()
    shop.track(event(member))
    cost_without_programs = count(shop.organization.api.engine, lambda: shop.track(event(member)))
    Friends(shop)
    shop.track(event(member))
    assert count(shop.organization.api.engine, lambda: shop.track(event(member))) == cost_without_programs + 1
