"""Values of limits and effects that can never work."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from domain.campaigns.checks import SharedRule, faults_of_constants, faults_of_limits, faults_of_sharing
from domain.campaigns.compiled import compile_effects
from tests.builders.campaigns import NOON, effect, mint


def limit_faults(*rules):
    """(pointer, detail) of each fault of rules with the scope member."""
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
        ("/limitRules/0/ledgerAccountKey", "ledgerAccountKey is only allowed in a limit of points."),
    ]


LIMIT_5, LIMIT_5_AND_7_5_IN_MAD = {"limit": 5}, {"limit": 5, "locationLimits": {"MAD": Decimal("7.5")}}


@pytest.mark.parametrize(
    ("rule", "faults"),
    [
        ({"scope": "location", "type": "coupons", **LIMIT_5, "locationLimits": {"MAD": 7}}, []),
        (
            {"scope": "location", "type": "coupons", **LIMIT_5_AND_7_5_IN_MAD},
            [("locationLimits", "locationLimits has a limit of coupons that is not a whole number")],
        ),
        (
            {"scope": "location", "type": "transactions", **LIMIT_5_AND_7_5_IN_MAD},
            [("locationLimits", "locationLimits has a limit of transactions that is not a whole number")],
        ),
        ({"scope": "location", "type": "points", **LIMIT_5_AND_7_5_IN_MAD}, []),
        (
            {"scope": "campaign", "type": "points", **LIMIT_5_AND_7_5_IN_MAD},
            [("locationLimits", "locationLimits is only allowed with the scope location")],
        ),
        ({"scope": "location", "type": "points", "limit": 5, "locationLimits": {"x" * 100: 7}}, []),
        (
            {"scope": "location", "type": "points", "limit": 5, "locationLimits": {"x" * 101: 7}},
            [("locationLimits", "locationLimits has a code of more than 100 characters")],
        ),
        ({"scope": "campaign", "type": "points", **LIMIT_5, "alertShares": [80]}, []),
        ({"scope": "member", "type": "points", **LIMIT_5, "alertShares": []}, []),
        (
            {"scope": "member", "type": "points", **LIMIT_5, "alertShares": [80]},
            [("alertShares", "alertShares needs the scope campaign or location")],
        ),
        (
            {"scope": "member", "type": "money", **LIMIT_5, "ledgerAccountKey": "points"},
            [("ledgerAccountKey", "ledgerAccountKey is only allowed in a limit of points")],
        ),
    ],
)
def test_fields_of_a_limit_that_contradict_each_other_are_refused(rule, faults):
    actual_faults = faults_of_limits([rule], has_currency=True)
    assert [(fault.pointer, fault.detail) for fault in actual_faults] == [
        (f"/limitRules/0/{name}", f"{detail}.") for name, detail in faults
    ]


def test_a_limit_of_money_needs_a_currency():
    rules = [{"scope": "member", "type": kind, "limit": 5} for kind in ("points", "money")]
    assert faults_of_limits(rules, has_currency=True) == []
    assert [(fault.pointer, fault.detail) for fault in faults_of_limits(rules, has_currency=False)] == [
        ("/limitRules/1/type", "type is money, and neither the campaign nor the organization has a currency.")
    ]


SHARED_LIMIT = {"scope": "campaign", "type": "money", "period": "yearly", "limit": 5000, "sharedKey": "year"}


def differences(rule, other=SHARED_LIMIT, currency="EUR", other_currency="EUR"):
    """The faults of a rule that has the shared key of the rule `other`, which belongs to the campaign `stores`."""
    faults = faults_of_sharing(
        [{**SHARED_LIMIT, "sharedKey": None, "limit": 1}, rule], currency, [SharedRule(other, other_currency, "stores")]
    )
    assert all(fault.pointer == "/limitRules/1/sharedKey" for fault in faults)
    return [fault.detail.removeprefix("sharedKey year is shared with a rule of campaign ") for fault in faults]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"scope": "member"}, "scope"),
        ({"type": "points"}, "type"),
        ({"period": "total"}, "period"),
        ({"limit": 4999}, "limit"),
        ({"ledgerAccountKey": "points"}, "ledgerAccountKey"),
        ({"locationLimits": {"MAD": 1}}, "locationLimits"),
        ({"alertShares": [80]}, "alertShares"),
    ],
)
def test_rules_with_one_shared_key_that_differ_are_refused(change, name):
    assert differences({**SHARED_LIMIT, **change}) == [f"stores; the two rules differ in {name}."]


def test_rules_with_one_shared_key_in_two_currencies_are_refused():
    assert differences(SHARED_LIMIT, other_currency="USD") == [
        "stores; the two rules differ in the currency of the campaign."
    ]


def test_equivalent_rules_may_share_a_key():
    alerts = {**SHARED_LIMIT, "alertShares": [80, 100]}
    assert differences({**alerts, "locationLimits": {}}, {**alerts, "alertShares": [100, 80]}) == []
    assert differences({**SHARED_LIMIT, "sharedKey": "month", "limit": 1}) == []


def test_two_rules_of_one_campaign_with_one_shared_key_that_differ_are_refused():
    [fault] = faults_of_sharing([SHARED_LIMIT, {**SHARED_LIMIT, "limit": 1}], "EUR", [])
    assert fault.detail == (
        "sharedKey year is shared with another rule of this campaign; the two rules differ in limit."
    )


MAY = "2026-05-01T00:00:00Z"


def constant_faults(*effects):
    """(pointer, detail) of each fault of constants in effects that are saved at NOON."""
    items = {"items": list(effects)}
    faults = faults_of_constants(compile_effects(items), items, NOON)
    return [(fault.pointer, fault.detail) for fault in faults]


@pytest.mark.parametrize("amount", [0, -1])
def test_an_amount_of_0_or_less_is_refused(amount):
    assert constant_faults(mint(1), mint(amount, description="x")) == [
        ("/effects/items/1/params/0/value", f"amount of mint-points is {amount}, not more than 0."),
    ]


@pytest.mark.parametrize(
    # The fault is None, or the place of the parameter.
    ("amount", "qualifying_amount", "fault"),
    [
        (0, 5, None),
        (0, 0, None),
        (0, ("=", "order.total"), None),
        (5, 0, None),
        (5, -1, "/1/value"),
        (-1, 5, "/0/value"),
    ],
)
def test_a_mint_of_nothing_may_have_points_that_qualify(amount, qualifying_amount, fault):
    faults = constant_faults(mint(amount, qualifyingAmount=qualifying_amount))
    assert [pointer for pointer, _ in faults] == ([] if fault is None else [f"/effects/items/0/params{fault}"])


def test_only_a_mint_may_have_the_amount_0():
    badge = effect("assign-badge", badgeKey="b", amount=0)
    assert [pointer for pointer, _ in constant_faults(badge)] == ["/effects/items/0/params/1/value"]


@pytest.mark.parametrize(("maximum", "is_fault"), [(0, True), (-1, True), (Decimal("0.01"), False)])
def test_the_maximum_of_a_discount_is_more_than_0(maximum, is_fault):
    params = [*discount("10"), {"id": "maxAmount", "value": maximum}]
    faults = constant_faults({"effectId": "discount", "params": params})
    detail = f"maxAmount of discount is {maximum}, not more than 0."
    assert faults == ([("/effects/items/0/params/2/value", detail)] if is_fault else [])


@pytest.mark.parametrize(
    ("params", "pointers"),
    [
        pytest.param({"availableAfter": "P14D"}, [], id="a duration"),
        pytest.param({"availableAfter": "14 days"}, ["/1/value"], id="no duration"),
        pytest.param({"availableAt": MAY, "expirationDate": "2026-05-01T00:00:01Z"}, [], id="a second later"),
        pytest.param({"availableAt": MAY, "expirationDate": MAY}, ["/2/value"], id="at the same moment"),
        pytest.param({"availableAt": MAY, "expirationDate": "2026-04-30T00:00:00Z"}, ["/2/value"], id="earlier"),
        pytest.param({"expirationDate": MAY}, [], id="available at once"),
    ],
)
def test_points_do_not_expire_before_they_are_available(params, pointers):
    faults = constant_faults(mint(5, **params))
    assert [pointer for pointer, _ in faults] == [f"/effects/items/0/params{pointer}" for pointer in pointers]


@pytest.mark.parametrize(
    ("params", "pointers"),
    [
        pytest.param({"months": 3}, [], id="months"),
        pytest.param({"until": "2026-12-31T00:00:00Z"}, [], id="a moment"),
        pytest.param({"until": ("=", "now")}, [], id="a computed moment"),
        pytest.param({"months": 0}, ["/0/value"], id="no month"),
        pytest.param({"months": 3, "until": "2026-12-31T00:00:00Z"}, ["/0/value"], id="both"),
        pytest.param({"until": "2026-01-01T00:00:00Z"}, ["/0/value"], id="a moment of the past"),
        pytest.param({}, [""], id="neither"),
    ],
)
def test_an_extension_is_by_months_or_until_a_moment(params, pointers):
    faults = constant_faults(effect("extend-expiry", **params))
    assert [pointer for pointer, _ in faults] == [f"/effects/items/0/params{pointer}" for pointer in pointers]


def test_values_that_are_computed_for_each_event_are_not_checked():
    # The amounts -1 and 0 would be refused if they were constants.
    assert constant_faults(mint(amount=("=", "-1")), effect("discount", type="percentage", value=("=", "0"))) == []


def discount(value, kind="percentage"):
    """The parameters of a discount with a constant value."""
    return [{"id": "type", "value": kind}, {"id": "value", "value": Decimal(value)}]


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
    faults = constant_faults({"effectId": "discount", "params": discount(value, kind)})
    assert faults == ([("/effects/items/0/params/1/value", detail)] if detail else [])


@pytest.mark.parametrize(("seconds", "is_fault"), [(-1, True), (0, True), (1, False)])
def test_an_expiry_that_is_not_in_the_future_is_refused(seconds, is_fault):
    at = (NOON + timedelta(seconds=seconds)).isoformat()
    tier = effect("set-tier", loyaltyProgramKey="p", loyaltyTierKey="t", expiresAt=at)
    faults = constant_faults(mint(1, expirationDate=at), tier)
    faults_of_the_past = [
        ("/effects/items/0/params/1/value", "expirationDate of mint-points is not in the future."),
        ("/effects/items/1/params/2/value", "expiresAt of set-tier is not in the future."),
    ]
    assert faults == (faults_of_the_past if is_fault else [])
