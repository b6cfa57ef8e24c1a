"""Limits are never exceeded, and if there is demand, they are used up to the last unit."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.calendar import period_start
from domain.campaigns.counters import ALL_ACCOUNTS, ALL_MEMBERS, Count, CounterKey, Counters
from tests.builders.campaigns import (
    EVENT_TYPE,
    MEMBER_ID,
    NOON,
    SPONSOR_WALLET_ID,
    Bench,
    account,
    action,
    campaign,
    campaign_action_and_reason,
    effect,
    facts,
    mint,
    statuses,
)

PERIODS = ("daily", "weekly", "monthly", "yearly", "total")
# A point for each unit of the order's total.
MINT_TOTAL = mint(("=", "order.total"))


def rule(limit, scope="member", kind="points", period="monthly", **more):
    """A limit of points for each member and month, unless the scope, the kind or the period differs."""
    return {"scope": scope, "type": kind, "period": period, "limit": limit, **more}


def test_a_mint_over_a_limit_is_cut_if_the_campaign_applies_parts():
    limited_campaign = campaign(
        action(1, MINT_TOTAL), limit_rules=(rule(100),), allow_partial_application_on_limit=True
    )
    bench = Bench(limited_campaign)
    evaluations = [bench.run(facts(total)) for total in (60, 60, 60)]
    assert [evaluation.effects[0].status for evaluation in evaluations] == ["executed", "partial", "skipped"]
    # Of the limit of 100, the second order gets the remaining 40.
    assert [evaluation.limit_discarded for evaluation in evaluations] == [0, 60 - 40, 60]
    assert [evaluation.effects[0].error and evaluation.effects[0].error["type"] for evaluation in evaluations] == [
        None,
        "/problems/limit-reached",
        "/problems/limit-reached",
    ]
    assert bench.balance() == 100


def test_a_mint_over_a_limit_is_skipped_if_the_campaign_does_not_apply_parts():
    bench = Bench(campaign(action(1, MINT_TOTAL), limit_rules=(rule(100),)))
    # Of the limit of 100, the first order uses 60, and the third one the remaining 40.
    evaluations = [bench.run(facts(total), explaining=True) for total in (60, 60, 40, 1)]
    assert [evaluation.effects[0].status for evaluation in evaluations] == [
        "evaluated",
        "skipped",
        "evaluated",
        "skipped",
    ]
    assert [evaluation.limit_discarded for evaluation in evaluations] == [0, 60, 0, 1]
    assert campaign_action_and_reason(evaluations[1]) == [(1, None, None), (1, 1, "LIMIT_REACHED")]
    assert bench.balance() == 100


def test_all_effects_of_an_action_over_a_limit_are_skipped():
    limited_campaign = campaign(
        action(1, mint(60), effect("discount", type="amount", value=1), mint(60)), limit_rules=(rule(100),)
    )
    bench = Bench(limited_campaign)
    evaluation = bench.run()
    assert statuses(evaluation) == [(1, "skipped")] * 3
    assert evaluation.limit_discarded == 60 + 60
    assert bench.balance() == 0


def test_the_next_action_may_use_the_rest_of_a_limit():
    bench = Bench(campaign(action(1, mint(101)), action(2, mint(100)), limit_rules=(rule(100),)))
    assert statuses(bench.run()) == [(1, "skipped"), (2, "executed")]


def test_a_limit_of_points_counts_only_the_whole_points_that_the_account_can_hold():
    limited_campaign = campaign(
        action(1, mint(Decimal("7.9"))), limit_rules=(rule(Decimal("10.5")),), allow_partial_application_on_limit=True
    )
    bench = Bench(limited_campaign)
    evaluations = [bench.run() for _ in range(3)]
    assert [evaluation.effects[0].status for evaluation in evaluations] == ["executed", "partial", "skipped"]
    # The account has whole points: 7 of the 7.9, and then 3 of the remaining 3.5.
    assert bench.balance() == 10


def test_an_account_named_by_a_rule_is_the_only_one_that_counts():
    accounts = [account(), account(2)]
    limited_campaign = campaign(
        action(1, mint(50), mint(50, ledgerAccountKey="account-2")),
        accounts=accounts,
        limit_rules=(rule(60, ledgerAccountKey="account-2"),),
        allow_partial_application_on_limit=True,
    )
    bench = Bench(limited_campaign, accounts=accounts)
    bench.run()
    bench.run()
    assert bench.balance(ledger_account_id=1) == 50 + 50
    assert bench.balance(ledger_account_id=2) == 60


def test_a_rule_without_an_account_counts_all_accounts_together():
    accounts = [account(), account(2)]
    limited_campaign = campaign(
        action(1, mint(50), mint(50, ledgerAccountKey="account-2")),
        accounts=accounts,
        limit_rules=(rule(60),),
        allow_partial_application_on_limit=True,
    )
    bench = Bench(limited_campaign, accounts=accounts)
    bench.run()
    assert bench.balance(ledger_account_id=1) == 50
    assert bench.balance(ledger_account_id=2) == 60 - 50


def test_points_of_a_sponsor_count_for_the_member_of_the_event():
    limited_campaign = campaign(action(1, mint(60, recipient="sponsor"), mint(60)), limit_rules=(rule(100),))
    # 60 points for the sponsor and 60 for the member exceed the limit of 100.
    with_sponsor = Bench(limited_campaign).run(facts(sponsor_wallet_id=SPONSOR_WALLET_ID))
    assert statuses(with_sponsor) == [(1, "skipped")] * 2
    # Without a sponsor, only the 60 of the member count.
    without_sponsor = Bench(limited_campaign).run()
    assert statuses(without_sponsor) == [(1, "skipped"), (1, "executed")]


def test_burns_and_discounts_count_no_points():
    limited_campaign = campaign(
        action(1, mint(10), effect("burn-points", amount=10), effect("discount", type="amount", value=99)),
        limit_rules=(rule(10),),
    )
    evaluation = Bench(limited_campaign).run()
    assert {outcome.status for outcome in evaluation.effects} == {"executed"}
    assert [count.amount for count in evaluation.counts] == [10]


@pytest.mark.parametrize(
    ("limit", "allowed_events"), [(0, 0), (1, 1), (Decimal("1.5"), 1), (Decimal("0.5"), 0), (Decimal("2.0"), 2)]
)
@pytest.mark.parametrize("scope", ["member", "campaign"])
def test_a_limit_of_transactions_counts_events_that_had_an_effect(scope, limit, allowed_events):
    limited_campaign = campaign(
        action(1, mint(1), mint(1)), action(2, mint(1)), limit_rules=(rule(limit, scope, "transactions"),)
    )
    bench = Bench(limited_campaign)
    evaluations = [bench.run() for _ in range(4)]
    # Each event mints 3 points by the two actions, and counts once.
    for evaluation in evaluations[:allowed_events]:
        assert {outcome.status for outcome in evaluation.effects} == {"executed"}
        assert evaluation.limit_discarded == 0
    for evaluation in evaluations[allowed_events:]:
        assert {outcome.status for outcome in evaluation.effects} == {"skipped"}
        assert evaluation.limit_discarded == 3
    assert bench.balance() == 3 * allowed_events


def test_an_event_without_an_effect_uses_up_no_transaction():
    limited_campaign = campaign(action(1, MINT_TOTAL), max_transactions_per_member=1)
    bench = Bench(limited_campaign)
    events_without_points = [facts(), facts(0), facts("0.5")]
    for event in events_without_points:
        assert bench.run(event).counts == []
    assert bench.run(facts(5)).effects[0].status == "executed"
    assert bench.run(facts(5)).effects[0].status == "skipped"


def test_the_monthly_limit_of_points_and_the_maximum_of_transactions_work_like_limit_rules():
    campaign_of_points = campaign(action(1, mint(60)), points_monthly_limit_per_member=Decimal(100))
    bench = Bench(campaign_of_points)
    assert [bench.run().effects[0].status for _ in range(2)] == ["executed", "skipped"]
    next_month = facts(at=NOON.replace(month=4))
    assert bench.run(next_month).effects[0].status == "executed"
    campaign_of_one_transaction = campaign(action(1, mint(1)), max_transactions_per_member=1)
    bench = Bench(campaign_of_one_transaction)
    # The maximum of transactions is for all time: the first event uses it up for all years.
    for year, status in ((2020, "executed"), (2026, "skipped"), (2030, "skipped")):
        assert bench.run(facts(at=NOON.replace(year=year))).effects[0].status == status


def test_two_rules_on_one_counter_count_once_and_the_stricter_decides():
    limited_campaign = campaign(
        action(1, mint(10)), limit_rules=(rule(35), rule(25)), allow_partial_application_on_limit=True
    )
    bench = Bench(limited_campaign)
    # Of 4 mints of 10 points, the stricter limit allows 25 points.
    for _ in range(4):
        bench.run()
    assert bench.balance() == 25
    assert [change.used for change in bench.counters.changes()] == [25]


def test_each_campaign_counts_for_itself():
    first_campaign = campaign(action(1, mint(10)), limit_rules=(rule(10),))
    second_campaign = campaign(action(2, mint(10)), campaign_id=2, limit_rules=(rule(10),))
    assert statuses(Bench(first_campaign, second_campaign).run()) == [(1, "executed"), (2, "executed")]


def test_a_limit_counts_each_member_individually_or_all_members_together():
    limited_campaign = campaign(
        action(1, mint(10)), limit_rules=(rule(10, "member", period="total"), rule(15, "campaign"))
    )
    bench = Bench(limited_campaign)
    events = [facts(member_id=member_id, wallet_id=member_id * 10) for member_id in (1, 1, 2, 3)]
    effect_statuses = [bench.run(event).effects[0].status for event in events]
    # Member 1 has used the limit of 10 for each member; 5 remain of the 15 of the campaign.
    assert effect_statuses == ["executed", "skipped", "skipped", "skipped"]


def test_counts_of_earlier_events_use_up_a_limit():
    key = CounterKey(1, MEMBER_ID, ALL_ACCOUNTS, "points", "monthly", date(2026, 3, 1))
    limited_campaign = campaign(action(1, mint(10)), limit_rules=(rule(100),), allow_partial_application_on_limit=True)
    bench = Bench(limited_campaign, used_amounts={key: Decimal(95)})
    bench.run()
    assert bench.balance() == 100 - 95
    assert [(change.key, change.used) for change in bench.counters.changes()] == [(key, 5)]
    assert Bench(limited_campaign, used_amounts={key: Decimal(101)}).run().effects[0].status == "skipped"


def test_the_counts_of_an_event_are_reported_with_their_counters():
    limited_campaign = campaign(
        action(1, mint(10)),
        limit_rules=(rule(100, "campaign", "transactions", "daily"), rule(50, ledgerAccountKey="account-1")),
    )
    counts = Bench(limited_campaign).run(facts(at=NOON)).counts
    key_of_transactions = CounterKey(1, ALL_MEMBERS, ALL_ACCOUNTS, "transactions", "daily", date(2026, 3, 4))
    key_of_points = CounterKey(1, MEMBER_ID, 1, "points", "monthly", date(2026, 3, 1))
    expected_counts = [
        Count(key_of_transactions, Decimal(1), campaign_id=1),
        Count(key_of_points, Decimal(10), campaign_id=1),
    ]
    assert sorted(counts, key=str) == sorted(expected_counts, key=str)


def test_a_mint_that_fails_counts_nothing():
    accounts = [account(max_supply=Decimal(5))]
    limited_campaign = campaign(
        action(1, mint(10)), limit_rules=(rule(100), rule(1, "member", "transactions")), accounts=accounts
    )
    bench = Bench(limited_campaign, accounts=accounts)
    assert bench.run().effects[0].status == "failed"
    assert bench.counters.count_log == []


limits = st.tuples(
    st.sampled_from(["member", "campaign"]),
    st.sampled_from(["points", "transactions"]),
    st.sampled_from(PERIODS),
    st.integers(0, 60),
)
purchases = st.tuples(
    st.integers(1, 3),
    st.integers(0, 40),
    st.datetimes(datetime(2025, 12, 20), datetime(2026, 1, 12), timezones=st.just(UTC)),
)


class ModelCounter(NamedTuple):
    """The address of a counter of the model; the member 0 means all members."""

    scope: str
    kind: str
    period: str
    member: int
    begin: date


@given(st.lists(limits, max_size=3), st.booleans(), st.lists(purchases, max_size=25))
def test_limits_discard_as_many_points_as_a_plain_model(rules, partial, events):
    limited_campaign = campaign(
        action(1, MINT_TOTAL),
        event_type=EVENT_TYPE,
        limit_rules=tuple(rule(limit, scope, kind, period) for scope, kind, period, limit in rules),
        allow_partial_application_on_limit=partial,
    )
    bench = Bench(limited_campaign)
    used_amounts: dict[ModelCounter, int] = {}
    for member, total, at in events:
        # Of two rules with one counter, the lower limit is the last one and decides.
        limits_of_counters = {
            ModelCounter(scope, kind, period, member if scope == "member" else 0, period_start(period, at)): limit
            for scope, kind, period, limit in sorted(rules, reverse=True)
        }
        remaining_amounts = {
            counter: limit - used_amounts.get(counter, 0) for counter, limit in limits_of_counters.items()
        }
        is_over_transactions = any(
            remaining <= 0 for counter, remaining in remaining_amounts.items() if counter.kind == "transactions"
        )
        requested_points = 0 if is_over_transactions else total
        remaining_points = min(
            (remaining for counter, remaining in remaining_amounts.items() if counter.kind == "points"),
            default=requested_points,
        )
        is_within_limits = requested_points <= remaining_points
        expected_points = min(requested_points, remaining_points) if partial or is_within_limits else 0
        balance_before = bench.balance(member * 10)
        evaluation = bench.run(facts(total, member_id=member, wallet_id=member * 10, at=at))
        assert bench.balance(member * 10) - balance_before == expected_points
        assert evaluation.limit_discarded == total - expected_points
        if expected_points:
            for counter, limit in limits_of_counters.items():
                amount = expected_points if counter.kind == "points" else 1
                used_amounts[counter] = used_amounts.get(counter, 0) + amount
                assert used_amounts[counter] <= limit


@given(st.integers(0, 200), st.lists(st.integers(0, 40), max_size=20), st.sampled_from(["member", "campaign"]))
def test_parts_use_a_limit_up_to_the_last_point(limit, totals, scope):
    limited_campaign = campaign(
        action(1, MINT_TOTAL),
        limit_rules=(rule(limit, scope, period="total"),),
        allow_partial_application_on_limit=True,
    )
    bench = Bench(limited_campaign)
    discarded_points = sum(bench.run(facts(total)).limit_discarded for total in totals)
    assert bench.balance() == min(limit, sum(totals))
    assert discarded_points == sum(totals) - bench.balance()


def test_an_event_counts_in_the_period_in_which_it_happened():
    limited_campaign = campaign(action(1, mint(10)), limit_rules=(rule(10, period="daily"),))
    bench = Bench(limited_campaign)
    # Two events are within 4 March, and two within 5 March.
    midnight = datetime(2026, 3, 5, tzinfo=UTC)
    for at, status in (
        (midnight - timedelta(microseconds=1), "executed"),
        (midnight, "executed"),
        (midnight + timedelta(hours=23, minutes=59), "skipped"),
        (midnight - timedelta(hours=24), "skipped"),
    ):
        assert bench.run(facts(at=at)).effects[0].status == status


def test_a_reversal_lowers_a_counter_but_never_below_zero():
    key = CounterKey(1, MEMBER_ID, ALL_ACCOUNTS, "points", "total", date(1, 1, 1))
    counters = Counters({key: Decimal(8)})
    counters.reverse(Count(key, Decimal(3), campaign_id=1))
    assert counters.used_amount(key) == 8 - 3
    counters.reverse(Count(key, Decimal(6), campaign_id=1))
    assert counters.used_amount(key) == 0
    [change] = counters.changes()
    assert (change.key, change.used) == (key, -8)
    # The counter is not split into parts.
    assert (change.part, change.parts) == (0, 0)
