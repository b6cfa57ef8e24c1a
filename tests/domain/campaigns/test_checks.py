"""Values of limits and effects that can never work."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from domain.campaigns.checks import faults_of_constants, faults_of_limits
from domain.campaigns.compiled import compile_effects
from tests.builders.campaigns import NOON, effect, mint


def limit_faults(*rules):
    return [
        (fault.pointer, fault.detail)
        for fault in faults_of_limits([{"scope": "member", **rule} for rule in rules], has_currency=True)
    ]


def test_a_limit_of_transactions_is_a_whole_number_without_an_account():
    points = {"type": "points", "limit": Decimal("1.5"), "ledgerAccountKey": "points"}
    assert limit_faults(points, {"type": "transactions", "limit": Decimal("2.0")}) == []
    assert limit_faults(points, {"type": "transactions", "limit": Decimal("2.5")}) == [
        ("/limitRules/1/limit", "limit of transactions is 2.5, not a whole number."),
    ]
    assert limit_faults({"type": "transactions", "limit": 2, "ledgerAccountKey": "points"}) == [
        ("/limitRules/0/ledgerAccountKey", "ledgerAccountKey goes only with a limit of points."),
    ]


def constant_faults(*effects):
    items = {"items": list(effects)}
    found = faults_of_constants(compile_effects(items), items, NOON)
    return [(fault.pointer, fault.detail) for fault in found]


@pytest.mark.parametrize("amount", [0, -1])
def test_an_amount_is_more_than_0(amount):
    assert constant_faults(mint(1), mint(amount, description="x")) == [
        ("/effects/items/1/params/0/value", f"amount of mint-points is {amount}, not more than 0."),
    ]


def test_what_is_computed_for_each_event_is_not_checked():
    assert constant_faults(mint(("=", "-1")), {"effectId": "discount", "params": discount("0", computed=True)}) == []


def discount(value, kind="percentage", computed=False):
    amount = {"expression": value} if computed else {"value": Decimal(value)}
    return [{"id": "type", "value": kind}, {"id": "value", **amount}]


@pytest.mark.parametrize(
    ("value", "kind", "detail"),
    [
        ("0", "percentage", "value of discount is 0, which is not more than 0."),
        ("-1", "amount", "value of discount is -1, which is not more than 0."),
        ("100.5", "percentage", "value of discount is 100.5 percent, which is more than 100."),
        ("100", "percentage", None),
        ("101", "amount", None),
        ("0.5", "amount", None),
    ],
)
def test_a_discount_is_more_than_0_and_at_most_100_percent(value, kind, detail):
    found = constant_faults({"effectId": "discount", "params": discount(value, kind)})
    assert found == ([("/effects/items/0/params/1/value", detail)] if detail else [])


@pytest.mark.parametrize(("seconds", "is_fault"), [(-1, True), (0, True), (1, False)])
def test_an_expiry_is_in_the_future(seconds, is_fault):
    at = (NOON + timedelta(seconds=seconds)).isoformat()
    tier = effect("set-tier", loyaltyProgramKey="p", loyaltyTierKey="t", expiresAt=at)
    found = constant_faults(mint(1, expirationDate=at), tier)
    expected = [
        ("/effects/items/0/params/1/value", "expirationDate of mint-points is not in the future."),
        ("/effects/items/1/params/2/value", "expiresAt of set-tier is not in the future."),
    ]
    assert found == (expected if is_fault else [])
