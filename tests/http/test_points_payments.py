"""Payments with points: quotes, holds, captures and refunds over HTTP, with the numbers of each rule."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from tests.builders import clock as clocks
from tests.builders.tracking import Shop

POLICY = {"pointsPerUnit": 100, "currency": "EUR"}


@dataclass
class Till:
    """A member with points on the default account, which pay for orders."""

    shop: Shop
    member: str
    clock: clocks.Clock

    @property
    def path(self) -> str:
        return f"/members/{self.member}/points-payments"

    def allow(self, policy: Any, expect: int = 200, **settings: Any) -> Any:
        """Change how the points of the account pay."""
        created = self.shop.organization.created
        path = f"/ledgers/{created.ledger_id}/accounts/{created.ledger_account_id}"
        body = {"name": "Points", "active": True, "isRevolving": True, "chainSyncEnabled": False, **settings}
        answer = self.shop.administration.put(path, {**body, "redemption": policy}, expect=expect)
        return answer["ledgerAccount"] if expect == 200 else answer

    def quote(self, total: Any, expect: int = 200, **body: Any) -> Any:
        return self.shop.integration.post(f"{self.path}/quote", {"orderTotal": total, **body}, expect=expect)


@pytest.fixture
def till(organization, monkeypatch):
    shop = Shop(organization)
    till = Till(shop, shop.member(), clocks.installed(monkeypatch))
    till.allow(POLICY)
    return till


def type_of(problem):
    return problem["type"].removeprefix("/problems/")


# --- quotes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "balance", "expected"),
    [
        pytest.param(
            {"pointsPerUnit": 100, "maxShare": 0.5},
            2730,
            {"maxPoints": 2500, "maxValue": 25, "minPoints": 0, "multipleOf": 1},
            id="example 1",
        ),
        pytest.param(
            {"pointsPerUnit": 1, "multipleOf": 3},
            10,
            {"maxPoints": 9, "maxValue": 9, "minPoints": 0, "multipleOf": 3},
            id="example 2",
        ),
        pytest.param(
            {"pointsPerUnit": 3},
            10,
            {"maxPoints": 10, "maxValue": Decimal("3.33"), "minPoints": 0, "multipleOf": 1},
            id="example 3",
        ),
    ],
)
def test_a_quote_is_what_the_member_may_pay(till, policy, balance, expected):
    till.allow({"currency": "EUR", **policy})
    till.shop.give(till.member, balance)
    assert till.quote(50) == {**expected, "balance": balance, "reason": None}
    assert till.shop.rows("ledger_transactions", "count(*)") == [(1,)]


def test_a_quote_without_points_says_why(till):
    assert till.quote(50)["reason"] == "no-points"
    till.allow({**POLICY, "minPoints": 200})
    till.shop.give(till.member, 199)
    assert till.quote(50) == {
        "maxPoints": 0,
        "maxValue": 0,
        "balance": 199,
        "minPoints": 200,
        "multipleOf": 1,
        "reason": "below-minimum",
    }


def test_a_quote_counts_what_can_be_spent_now(till):
    till.allow(POLICY, expiresInMonths=1)
    till.shop.give(till.member, 100)
    till.clock.wait(days=20)
    till.shop.give(till.member, 50)
    assert till.quote(50)["balance"] == 150
    till.clock.wait(days=20)
    assert till.quote(50)["balance"] == 50


def test_a_member_may_ask_for_the_own_quote(till):
    own = till.shop.integration.with_token(till.shop.organization.member_token(till.member))
    assert own.post(f"{till.path}/quote", {"orderTotal": 50}, expect=200)["maxPoints"] == 0
    other = till.shop.member()
    own.post(f"/members/{other}/points-payments/quote", {"orderTotal": 50}, expect=403)


def test_a_quote_is_in_the_currency_of_the_points(till):
    assert type_of(till.quote(50, currency="USD", expect=409)) == "currency-mismatch"
    assert till.quote(50, currency="EUR")["maxPoints"] == 0
    till.shop.administration.put("", {"defaultLocale": "en", "currency": "USD"})
    assert type_of(till.quote(50, expect=409)) == "currency-mismatch"
    assert till.quote(50, currency="EUR")["maxPoints"] == 0


def test_points_without_redemption_pay_nothing(till):
    assert "redemption" not in till.allow(None)
    assert type_of(till.quote(50, expect=409)) == "redemption-disabled"
    assert type_of(till.quote(50, ledgerAccountKey=str(uuid.uuid4()), expect=404)) == "unknown-ledger-account"
    stars = till.shop.account(name="Stars", redemption=POLICY)
    assert till.quote(50, ledgerAccountKey=stars["ledgerAccountKey"].upper())["reason"] == "no-points"


def test_an_inactive_member_gets_no_quote(till):
    till.shop.integration.patch(f"/members/{till.member}", {"active": False})
    assert type_of(till.quote(50, expect=409)) == "member-inactive"


# --- what an account allows --------------------------------------------------------------------------------------


def test_a_policy_has_its_defaults(till):
    complete = {**POLICY, "minPoints": 0, "multipleOf": 1, "maxShare": 1}
    assert till.allow(POLICY)["redemption"] == complete
    # An update that leaves it out keeps it.
    created = till.shop.organization.created
    path = f"/ledgers/{created.ledger_id}/accounts/{created.ledger_account_id}"
    body = {"name": "Points", "active": True, "isRevolving": True, "chainSyncEnabled": False}
    assert till.shop.administration.put(path, body)["ledgerAccount"]["redemption"] == complete


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"pointsPerUnit": 0}, "/redemption/pointsPerUnit"),
        ({"multipleOf": 0}, "/redemption/multipleOf"),
        ({"multipleOf": 0.5}, "/redemption/multipleOf"),
        ({"minPoints": 0.5}, "/redemption/minPoints"),
        ({"maxShare": 1.1}, "/redemption/maxShare"),
        ({"currency": "euro"}, "/redemption/currency"),
    ],
)
def test_a_policy_that_no_payment_can_satisfy_is_refused(till, changes, pointer):
    refused = till.allow({**POLICY, **changes}, expect=400)
    assert [error["pointer"] for error in refused["errors"]] == [pointer]
