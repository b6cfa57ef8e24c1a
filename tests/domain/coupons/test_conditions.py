"""The condition of a coupon book: when it holds, and which ones are refused."""

from __future__ import annotations

from decimal import Decimal

import pytest

from domain.coupons import conditions
from domain.coupons.conditions import check_condition, condition_may_read_orders, context_of, holds
from domain.expressions import Deadline, TimeExceeded
from domain.members import Member
from domain.problems import InvalidRequest
from tests.builders.campaigns import NOON

ANA = Member(
    **{**dict.fromkeys(Member.__slots__), "loyalty_member_id": "ana", "profile": {"city": "Rosario"}, "active": True}
)
CONTEXT = context_of(
    ANA,
    balances={"points": Decimal(50)},
    badges={"gold": Decimal(2)},
    audience_keys=frozenset({"vip", "new"}),
    tier_keys=frozenset({"silver", "base"}),
    now=NOON,
)


@pytest.mark.parametrize(
    # Ana has 50 points, two gold badges, the audiences vip and new, and the tiers silver and base.
    ("expression", "is_met"),
    [
        ("balances.points >= 50", True),
        ("balances.points > 50", False),
        ("badges.gold == 2", True),
        ("'vip' in audiences && 'silver' in tiers", True),
        ("audiences == ['new', 'vip'] && tiers == ['base', 'silver']", True),
        ("member.profile.city == 'Rosario'", True),
        ("now.getHours() == 12", True),
        # A condition that cannot be evaluated is not met.
        ("balances.nothing > 0", False),
        ("1 / (balances.points > 5 ? 0 : 1) > 0", False),
    ],
)
def test_a_condition_is_about_the_member(expression, is_met):
    assert holds({"expression": expression}, CONTEXT) is is_met


def test_a_book_without_a_condition_admits_every_member():
    assert holds({}, CONTEXT)
    check_condition({})


@pytest.mark.parametrize(
    ("condition", "pointers"),
    [
        ({"expression": "balances.points >", "node": {}}, ["/condition"]),
        ({"expression": "balances.points >"}, ["/condition/expression"]),
        ({"expression": "balances.points"}, ["/condition/expression"]),
        ({"node": {"kind": "lambda"}}, ["/condition/node"]),
        ({"expression": "order.total > 5"}, ["/condition/expression"]),
    ],
)
def test_a_condition_that_is_malformed_or_not_about_the_member_is_refused(condition, pointers):
    with pytest.raises(InvalidRequest) as caught:
        check_condition(condition)
    assert [fault.pointer for fault in caught.value.faults] == pointers


def test_a_condition_may_be_a_tree():
    tree = {"kind": "constant", "type": "bool", "value": False}
    check_condition({"node": tree})
    assert not holds({"node": tree}, CONTEXT)


def test_a_condition_that_may_read_earlier_orders_is_found_without_being_compiled(monkeypatch):
    compiled_conditions = []
    monkeypatch.setattr(conditions, "_program_of", compiled_conditions.append)
    field = {"kind": "identifier", "name": "member"}
    assert condition_may_read_orders({"expression": "member.orderCount > 2"})
    assert condition_may_read_orders({"node": {"kind": "select", "operand": field, "field": "lastOrderAt"}})
    assert not condition_may_read_orders({"expression": "balances.points > 2"})
    assert compiled_conditions == []


def test_after_the_deadline_a_condition_is_neither_compiled_nor_evaluated(monkeypatch):
    # The deadline reads the time from `seconds`, and ends after a second.
    seconds = 0.0
    deadline = Deadline(1, lambda: seconds)
    condition = {"expression": "balances.points == 50"}
    assert holds(condition, CONTEXT, deadline)
    seconds = 1.0
    monkeypatch.setattr(conditions, "_program_of", None)
    with pytest.raises(TimeExceeded):
        holds(condition, CONTEXT, deadline)
    assert holds({}, CONTEXT, deadline)


def test_the_deadline_ends_the_evaluation_of_a_condition():
    numbers = list(range(200))
    # The clock is read when the deadline is set, before the evaluation, and during it.
    readings_of_clock = iter([0.0, 0.0, 1.0])
    deadline = Deadline(1, lambda: next(readings_of_clock))
    with pytest.raises(TimeExceeded):
        holds({"expression": f"{numbers}.all(n, {numbers}.exists(m, m == n))"}, CONTEXT, deadline)
