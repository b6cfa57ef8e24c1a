"""The events that a mission counts, its valid settings, and the expiry of its points."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from domain.expressions import EVENT_COST, Budget
from domain.expressions.errors import CostExceeded
from domain.matchers import compile_matcher
from domain.missions.records import MissionClosed
from domain.missions.rules import compile_mission, expiry_of_reward, faults_of
from domain.organizations import Organization
from tests.builders.campaigns import NOON, account, facts
from tests.builders.missions import mission

ORDER = "member-purchase-order-created"
PAYMENT = "member-payment-confirmed"


def conditions(*values, operator="AND"):
    """A badge matcher with conditions such as ("gold", ">=", 1)."""
    return {
        "operator": operator,
        "conditions": [{"badgeKey": key, "operator": sign, "value": value} for key, sign, value in values],
    }


def matcher(code):
    """A matcher of items with this product code."""
    return {"operator": "AND", "conditions": [{"field": "productCode", "operator": "equals", "value": code}]}


def counts(record, event=None, matchers=None, audiences=None, **context):
    """True if the mission counts the event; `context` is what its expressions see, such as the order."""
    event = event or facts()
    # The context of `facts()` is shared, so the event is copied without it.
    event = facts(**{name: getattr(event, name) for name in event.__slots__ if name != "context"})
    event.context.update(context)
    return compile_mission(record, matchers or {}, audiences or {}, {}, None).counts(event, Budget(EVENT_COST))


def test_a_mission_counts_only_events_of_its_type():
    assert counts(mission())
    assert not counts(mission(event_type="member-created"))


def test_an_inactive_mission_counts_nothing():
    assert not counts(mission(active=False))


@pytest.mark.parametrize(
    ("valid_from", "valid_to", "is_counted"),
    [
        (NOON, NOON, True),
        (NOON + timedelta(microseconds=1), None, False),
        (None, NOON - timedelta(microseconds=1), False),
    ],
)
def test_the_validity_of_a_mission_includes_both_of_its_ends(valid_from, valid_to, is_counted):
    assert counts(mission(valid_from=valid_from, valid_to=valid_to)) is is_counted


def test_a_mission_counts_only_members_of_its_audience():
    mission_for_regulars = mission(audience_id=4)
    member = facts(audience_keys=frozenset({"regulars"}))
    assert counts(mission_for_regulars, member, audiences={4: "regulars"})
    assert not counts(mission_for_regulars, member, audiences={4: "others"})
    # An inactive or external audience matches no member.
    assert not counts(mission_for_regulars, member, audiences={})


@pytest.mark.parametrize(("currency", "is_counted"), [(None, False), ("USD", False), ("EUR", True)])
def test_a_mission_with_a_currency_counts_only_orders_in_it(currency, is_counted):
    assert counts(mission(currency="EUR"), facts(currency=currency)) is is_counted
    assert counts(mission(), facts(currency=currency))


@pytest.mark.parametrize(("spend", "is_counted"), [(None, False), ("9.99", False), ("10", True)])
def test_a_mission_counts_orders_of_at_least_its_minimum_spend(spend, is_counted):
    event = facts(spend=None if spend is None else Decimal(spend))
    assert counts(mission(min_spend_value=Decimal(10)), event) is is_counted


def test_one_item_has_to_match_both_the_shared_and_the_inline_matcher():
    matchers = {
        3: compile_matcher({"operator": "AND", "conditions": [{"field": "total", "operator": ">", "value": 4}]})
    }
    two_matchers = mission(matcher_id=3, inline_matcher=matcher("latte"))
    latte, cake = {"productCode": "latte", "total": Decimal(5)}, {"productCode": "cake", "total": Decimal(9)}
    assert counts(two_matchers, matchers=matchers, order={"items": [cake, latte]})
    assert not counts(two_matchers, matchers=matchers, order={"items": [cake, {**latte, "total": Decimal(4)}]})
    assert not counts(two_matchers, matchers=matchers, order={"items": []})
    assert not counts(two_matchers, matchers=matchers)


def test_conditions_on_items_use_the_budget_of_the_event():
    labels = {"field": "customAttributes.labels", "operator": "contains", "value": "fair"}
    mission_with_labels = mission(inline_matcher={"operator": "OR", "conditions": [labels] * 4})
    compiled_mission, budget = compile_mission(mission_with_labels, {}, {}, {}, None), Budget(1000)
    # Each of the 4 conditions may compare 99 labels, and costs one unit more.
    event = facts()
    event.context["order"] = {"items": [{"customAttributes": {"labels": ["new"] * 99}}] * 2}
    assert not compiled_mission.counts(event, budget)
    assert budget.remaining == 1000 - 2 * 4 * 100
    with pytest.raises(CostExceeded):
        compiled_mission.counts(event, budget)


def test_the_conditions_of_a_closed_mission_use_nothing_of_the_budget():
    closed_mission = mission(inline_matcher=matcher("latte"), valid_from=NOON + timedelta(hours=1))
    event, budget = facts(), Budget(1000)
    event.context["order"] = {"items": [{"productCode": "latte"}]}
    assert not compile_mission(closed_mission, {}, {}, {}, None).counts(event, budget)
    assert budget.remaining == 1000


def test_the_products_of_a_payment_are_its_items():
    mission_of_lattes = mission(inline_matcher=matcher("latte"))
    assert counts(mission_of_lattes, payment={"products": [{"sku": "latte", "total": Decimal(5)}]})
    assert not counts(mission_of_lattes, payment={"products": [{"sku": "cake", "total": Decimal(5)}]})


@pytest.mark.parametrize(
    ("sign", "matching_amounts"), [(">=", {2, 3}), (">", {3}), ("=", {2}), ("<", {0, 1}), ("<=", {0, 1, 2})]
)
def test_a_condition_compares_the_badges_of_the_member(sign, matching_amounts):
    mission_of_badges = mission(badge_matcher=conditions(("gold", sign, 2)))
    for amount in range(4):
        is_counted = counts(mission_of_badges, badges={"gold": Decimal(amount)})
        assert is_counted is (amount in matching_amounts)


def test_conditions_on_badges_are_joined_by_their_operator():
    two_conditions = (("gold", ">=", 1), ("silver", "<", 1))
    for badges, all_hold, any_holds in (
        ({"gold": 1, "silver": 0}, True, True),
        ({"gold": 1, "silver": 1}, False, True),
        ({"gold": 0, "silver": 1}, False, False),
        # A badge that the member has never had counts as 0.
        ({}, False, True),
    ):
        assert counts(mission(badge_matcher=conditions(*two_conditions)), badges=badges) is all_hold
        assert counts(mission(badge_matcher=conditions(*two_conditions, operator="OR")), badges=badges) is any_holds


def test_a_badge_that_the_member_never_had_counts_as_0():
    assert counts(mission(badge_matcher=conditions(("gold", "=", 0))), badges={})


def test_a_closed_mission_is_refused_with_a_reason():
    record = compile_mission(mission(active=False), {}, {}, {}, None)
    with pytest.raises(MissionClosed, match="not active"):
        record.refuse_closed(NOON, ())


@pytest.mark.parametrize(
    ("value", "unit", "expiry"),
    [
        (3, "days", datetime(2026, 2, 3, 12, tzinfo=UTC)),
        (2, "weeks", datetime(2026, 2, 14, 12, tzinfo=UTC)),
        (1, "months", datetime(2026, 2, 28, 12, tzinfo=UTC)),
        (2, "years", datetime(2028, 1, 31, 12, tzinfo=UTC)),
        (100_000, "weeks", datetime(3942, 8, 15, 12, tzinfo=UTC)),
        (100_000, "years", datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_points_expire_by_the_calendar(value, unit, expiry):
    rewarding_mission = mission(manual_expiration={"value": value, "unit": unit})
    assert expiry_of_reward(rewarding_mission, datetime(2026, 1, 31, 12, tzinfo=UTC)) == expiry


@pytest.mark.parametrize(
    ("unit", "expiry"),
    [("months", datetime(2026, 4, 7, 19, tzinfo=UTC)), ("days", datetime(2026, 3, 8, 19, tzinfo=UTC))],
)
def test_points_expire_by_the_calendar_of_the_time_zone_of_the_mission(unit, expiry):
    # Clocks in Los Angeles go forward on 8 March.
    rewarding_mission = mission(manual_expiration={"value": 1, "unit": unit}, timezone="America/Los_Angeles")
    assert expiry_of_reward(rewarding_mission, datetime(2026, 3, 7, 20, tzinfo=UTC)) == expiry


def test_points_that_would_expire_beyond_the_calendar_expire_at_its_last_moment():
    achieved_at = datetime(9999, 1, 1, tzinfo=UTC)
    long_mission = mission(manual_expiration={"value": 100_000, "unit": "days"})
    assert expiry_of_reward(long_mission, achieved_at) == datetime.max.replace(tzinfo=UTC)
    assert expiry_of_reward(mission(), achieved_at) is None


def faults(**values):
    """The pointers of the faults of a mission of generic events with these values."""
    record = mission(**values)
    return {fault.pointer for fault in faults_of({name: getattr(record, name) for name in record.__slots__})}


BADGES = {"badge_matcher": conditions(("gold", ">", 0))}


@pytest.mark.parametrize(
    ("values", "pointers"),
    [
        ({}, set()),
        ({"valid_from": NOON, "valid_to": NOON}, set()),
        ({"valid_from": NOON, "valid_to": NOON + timedelta(1)}, set()),
        ({"valid_from": NOON, "valid_to": NOON - timedelta(1)}, {"/validTo"}),
        ({"min_spend_value": Decimal(1)}, {"/minSpendValue"}),
        ({"currency": "EUR"}, {"/currency"}),
        ({"currency": "EUR", "event_type": PAYMENT}, set()),
        ({"min_spend_value": Decimal(0), "event_type": ORDER}, set()),
        ({"min_spend_value": Decimal(1), "event_type": PAYMENT}, set()),
        ({"matcher_id": 3}, {"/matcherId"}),
        ({"matcher_id": 3, "inline_matcher": matcher("x"), "event_type": ORDER}, set()),
        ({"inline_matcher": matcher("x"), "event_type": PAYMENT}, set()),
        ({"inline_matcher": matcher("x")}, {"/inlineMatcher"}),
        (BADGES, {"/badgeMatcher"}),
        ({**BADGES, "event_type": "badge-assigned"}, set()),
        ({**BADGES, "event_type": "badge-unassigned"}, set()),
        ({**BADGES, "event_type": "badge-assigned", "matcher_id": 3}, {"/matcherId"}),
        ({**BADGES, "event_type": ORDER, "inline_matcher": matcher("x")}, {"/inlineMatcher", "/badgeMatcher"}),
        ({"period_limit": 1}, {"/periodLimit"}),
        ({"repetition_period": "daily"}, {"/repetitionPeriod"}),
        ({"repetition_period": "daily", "period_limit": 1}, set()),
        ({"ledger_id": 1, "ledger_account_id": 1, "points_accrual": Decimal(1)}, set()),
        ({"ledger_id": 1, "ledger_account_id": 1}, {"/ledgerId", "/ledgerAccountId"}),
        ({"manual_expiration": {"value": 1, "unit": "days"}}, {"/manualExpiration"}),
        ({"manual_expiration": {"value": 1, "unit": "days"}, "points_accrual": Decimal(1)}, set()),
        ({"available_after": "P14D"}, {"/availableAfter"}),
        ({"available_after": "P14D", "points_accrual": Decimal(1)}, set()),
        ({"available_after": "14 days", "points_accrual": Decimal(1)}, {"/availableAfter"}),
    ],
)
def test_all_contradictions_are_reported_at_once(values, pointers):
    assert faults(**values) == pointers


@pytest.mark.parametrize(
    # The audience 4 has the key regulars. It is 12:00.
    ("values", "audience_keys_of_member", "reason"),
    [
        ({"active": False}, (), "The mission Three times is not active."),
        (
            {"valid_from": NOON + timedelta(hours=1)},
            (),
            "The mission Three times begins at 2026-03-04T13:00:00+00:00.",
        ),
        ({"valid_to": NOON - timedelta(hours=1)}, (), "The mission Three times ended at 2026-03-04T11:00:00+00:00."),
        ({"audience_id": 4}, ("others",), "The member is not in the audience of the mission Three times."),
        ({"audience_id": 5}, ("regulars",), "The member is not in the audience of the mission Three times."),
    ],
)
def test_a_mission_that_is_closed_to_a_member_is_refused_with_a_reason(values, audience_keys_of_member, reason):
    compiled_mission = compile_mission(mission(**values), {}, {4: "regulars"}, {}, None)
    with pytest.raises(MissionClosed) as caught:
        compiled_mission.refuse_closed(NOON, audience_keys_of_member)
    assert str(caught.value) == reason


def test_a_mission_is_not_closed_to_members_of_its_audience():
    mission_for_regulars = compile_mission(mission(audience_id=4), {}, {4: "regulars"}, {}, None)
    mission_for_regulars.refuse_closed(NOON, ["regulars"])


def test_points_of_a_mission_go_to_its_account_or_to_the_default_one():
    mission_account, default_account = account(2), account(1)

    def account_of(record):
        return compile_mission(record, {}, {}, {2: mission_account}, default_account).account

    assert account_of(mission()) == default_account
    assert account_of(mission(ledger_account_id=2)) == mission_account
    # There is no account 3.
    assert account_of(mission(ledger_account_id=3)) is None


def test_a_mission_without_a_time_zone_has_that_of_its_organization():
    organization = Organization(**{**dict.fromkeys(Organization.__slots__), "timezone": "Asia/Tokyo"})
    assert mission().in_zone_of(organization).timezone == "Asia/Tokyo"
    assert mission(timezone="Europe/Madrid").in_zone_of(organization).timezone == "Europe/Madrid"


def test_a_count_that_cannot_be_compiled_is_a_fault_of_the_mission():
    compiled_mission = compile_mission(mission(count_expression="nosuch(1)"), {}, {}, {}, None)
    assert compiled_mission.count is None
    assert "nosuch" in compiled_mission.fault
    mission_with_count = compile_mission(mission(count_expression="2"), {}, {}, {}, None)
    assert mission_with_count.count is not None
    assert mission_with_count.fault is None


def test_only_events_with_an_amount_of_money_can_have_a_minimum():
    record = mission(event_type="member-created", min_spend_value=Decimal(1))
    [fault] = faults_of({name: getattr(record, name) for name in record.__slots__})
    assert fault.pointer == "/minSpendValue"
    assert fault.detail == (
        "minSpendValue cannot be used with the event type member-created, which has no amount of money."
    )


def test_faults_name_the_contradictory_fields():
    record = mission(badge_matcher=conditions(("gold", ">", 0)), matcher_id=3, period_limit=1, ledger_id=1)
    conflicts = faults_of({name: getattr(record, name) for name in record.__slots__})
    assert [fault.detail for fault in conflicts] == [
        "matcherId cannot be used with the event type member-generic-event, which has no items.",
        "matcherId and badgeMatcher cannot be sent together.",
        "badgeMatcher cannot be used with the event type member-generic-event, which has no badge.",
        "periodLimit needs repetitionPeriod.",
        "ledgerId needs pointsAccrual.",
    ]
