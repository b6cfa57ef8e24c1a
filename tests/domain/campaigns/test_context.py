"""What expressions see of events, orders, payments and members."""

from __future__ import annotations

from dataclasses import fields, replace
from decimal import Decimal

import pytest

from domain.campaigns.context import (
    balances_by_name,
    currency_of,
    event_variable,
    host_functions,
    is_number,
    member_variable,
    order_variable,
    payment_variable,
    spend_of,
)
from domain.events import IncomingEvent
from domain.expressions import Budget, EvaluationError
from domain.ledger.postings import Holding
from domain.ledger.session import LedgerSession
from domain.matchers import compile_matcher
from domain.members import Member
from domain.orders import EarlierOrders, Order, OrderItem
from tests.builders.campaigns import NOON, account


def record(of, **values):
    """A record of the class `of` with these values; all other fields are None."""
    return of(**{**dict.fromkeys(field.name for field in fields(of)), **values})


def test_an_event_has_its_fields_and_an_empty_payload():
    event = record(IncomingEvent, event_type="till-opened", system_unique_key="k", description="Early")
    variable = event_variable(event, "key-1", NOON)
    assert variable == {
        "loyaltyEventKey": "key-1",
        "eventType": "till-opened",
        "systemUniqueKey": "k",
        "externalId": None,
        "description": "Early",
        "payload": {},
        "externalEventDate": NOON,
        "tags": [],
    }
    event_with_payload = record(IncomingEvent, payload={"n": 1}, tags=("a", "b"))
    variable = event_variable(event_with_payload, "key-1", NOON)
    assert (variable["payload"], variable["tags"]) == ({"n": 1}, ["a", "b"])


def test_an_order_has_its_items():
    order = record(Order, external_id="order-17", total=Decimal(12), tags=("new",))
    item = record(OrderItem, product_code="mug", quantity=Decimal(2))
    variable = order_variable(order, (item,))
    assert (variable["externalId"], variable["total"], variable["tags"]) == ("order-17", 12, ["new"])
    [seen_item] = variable["items"]
    assert (seen_item["productCode"], seen_item["quantity"], seen_item["total"]) == ("mug", 2, None)
    assert order_variable(None, ()) is None


def test_an_order_that_is_paid_in_part_with_points_has_its_payments_and_the_total_in_money():
    """Of 12.00, 5.00 were paid with points."""
    payments = ({"tender": "points", "amount": "5.00", "pointsPaymentKey": "k"}, {"tender": "card", "amount": "7.00"})
    order = record(Order, total=Decimal(12), tags=(), payments=payments)
    variable = order_variable(order, ())
    assert variable["moneyTotal"] == 7
    assert variable["payments"] == [
        {"tender": "points", "amount": 5, "pointsPaymentKey": "k", "reference": None},
        {"tender": "card", "amount": 7, "pointsPaymentKey": None, "reference": None},
    ]
    unpaid_order = order_variable(replace(order, payments=()), ())
    assert (unpaid_order["moneyTotal"], unpaid_order["payments"]) == (12, [])


def test_the_currency_is_that_of_the_order_or_without_an_order_that_of_the_payment():
    order = record(Order, currency="EUR")
    assert currency_of(order, {"currency": "USD"}) == "EUR"
    assert currency_of(record(Order), {"currency": "USD"}) is None
    assert currency_of(None, {"currency": "USD"}) == "USD"
    assert currency_of(None, None) is None


def test_a_member_has_the_summary_of_earlier_orders():
    member = record(Member, loyalty_member_id="ana", profile={})
    variable = member_variable(member, EarlierOrders(count=3, last_at=NOON))
    assert (variable["orderCount"], variable["lastOrderAt"]) == (3, NOON)
    new_member = member_variable(member)
    assert (new_member["orderCount"], new_member["lastOrderAt"]) == (0, None)


def test_a_payment_has_its_products_and_free_data():
    payment = {"paymentId": "p", "total": Decimal(5), "products": [{"id": "x", "secret": 1}], "other": 1}
    variable = payment_variable({"payment": {**payment, "memberInfo": {"data": {"size": "XL"}, "email": "e"}}}, "EUR")
    assert (variable["paymentId"], variable["total"], variable["memberInfo"]) == ("p", 5, {"data": {"size": "XL"}})
    assert "other" not in variable
    assert "secret" not in variable["products"][0]
    empty_payment = payment_variable({"payment": {"memberInfo": None, "currency": "USD"}}, "EUR")
    assert (empty_payment["products"], empty_payment["memberInfo"], empty_payment["total"]) == ([], {"data": {}}, None)
    assert (variable["currency"], empty_payment["currency"]) == ("EUR", "USD")
    assert payment_variable(None, "EUR") is None
    assert payment_variable({}, "EUR") is None


def test_a_member_has_a_profile_and_a_sponsor_may_be_missing():
    member = record(Member, loyalty_member_id="ana", profile={"name": "Ana"})
    variable = member_variable(member)
    assert (variable["loyaltyMemberId"], variable["profile"]["name"]) == ("ana", "Ana")
    assert member_variable(None) is None


def test_balances_have_the_key_and_the_alias_of_their_account():
    accounts = (account(1), account(2, alias="stars"))
    holdings = {(7, 1): Holding(current=Decimal(5)), (7, 2): Holding(current=Decimal(9))}
    session = LedgerSession(
        {ledger_account.ledger_account_id: ledger_account for ledger_account in accounts}, holdings, {}, NOON
    )
    wallet_id, other_wallet_id = 7, 8
    assert balances_by_name(session, wallet_id, accounts) == {"account-1": 5, "account-2": 9, "stars": 9}
    assert balances_by_name(session, other_wallet_id, accounts) == {"account-1": 0, "account-2": 0, "stars": 0}


def test_the_spend_is_the_total_of_the_order_or_without_an_order_that_of_the_payment():
    order = record(Order, total=Decimal(12))
    assert spend_of(order, {"total": "5"}) == 12
    assert spend_of(None, {"total": "5"}) == 5
    assert spend_of(None, None) is None


@pytest.mark.parametrize("labels", [[], ["hot"], ["cold"] * 9], ids=len)
def test_a_matcher_costs_more_for_a_larger_item(labels):
    """Each of the two conditions costs one unit, and one more for each label."""
    budget = Budget(1000)
    condition = {"field": "customAttributes.labels", "operator": "contains", "value": "hot"}
    matcher = compile_matcher({"operator": "OR", "conditions": [condition] * 2})
    matches = host_functions({"hot": matcher})["matches"]
    assert matches(budget, {"customAttributes": {"labels": labels}}, "hot") is ("hot" in labels)
    assert budget.remaining == 1000 - 2 * (1 + len(labels))


def test_an_unknown_matcher_is_an_error():
    with pytest.raises(EvaluationError, match="there is no matcher cold"):
        host_functions({})["matches"](Budget(1000), {}, "cold")
    with pytest.raises(EvaluationError, match=f"there is no matcher {'x' * 60}$"):
        host_functions({})["matches"](Budget(1000), {}, "x" * 61)


@pytest.mark.parametrize(
    ("value", "is_in_range"),
    [
        (0, True),
        (Decimal("0E+6000"), True),
        (Decimal("1E+300"), True),
        (Decimal("1E+301"), False),
        (Decimal("1E-300"), True),
        (Decimal("1E-301"), False),
        (True, False),
        ("1", False),
        (1.5, False),
    ],
)
def test_only_integers_and_decimals_within_300_powers_of_ten_are_numbers(value, is_in_range):
    assert is_number(value) is is_in_range
