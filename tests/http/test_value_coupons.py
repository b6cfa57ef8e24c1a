"""Coupons with a remaining value: uses reduce it, reverts restore it, and lists, exports and imports have it."""

from __future__ import annotations

import json
from copy import copy
from decimal import Decimal
from typing import NamedTuple

import pytest

from tests.builders.coupons import CouponBooks
from tests.builders.exports import exported_lines
from tests.builders.imports import Imports, status_read_done_failed
from tests.builders.missions import member_id_of
from tests.builders.tracking import ORDER_CREATED, Shop, key, order, order_update, running
from tests.http.test_coupon_effects import assign, assigned_and_used, use

EXCEEDED = "/problems/coupon-value-exceeded"


class Standing(NamedTuple):
    """A member's coupon: the amounts that were assigned and used, and the remaining value."""

    assigned: int
    used: int
    remaining: float | Decimal


class Card:
    """A book of value coupons of 12.00, unless `faceValue` is another, and a member who uses them."""

    def __init__(self, organization, *codes, **more):
        self.shop, self.books = Shop(organization), CouponBooks(organization)
        body = {"type": "codeless", "isValueCoupon": True, "faceValue": 12, **more}
        self.book, self.member = self.books.make(*codes, **body), self.shop.member()

    @property
    def path(self):
        return f"/members/{self.member}/coupon-books/{self.book['couponBookKey']}"

    def assign(self, *, expect=200, **body):
        """Assign a coupon to the member; return the usage, or the problem if `expect` is not 200."""
        response = self.shop.integration.post(f"{self.path}/assign", body, expect=expect)
        return response["couponUsage"] if expect == 200 else response

    def for_another_member(self):
        """The same book for a new member."""
        card = copy(self)
        card.member = self.shop.member()
        return card

    def stock_for_others(self):
        """The problems of an assignment to another member, without and with the code; and how many books it can use."""
        card = self.for_another_member()
        problems = [card.assign(expect=409, **body)["type"] for body in ({}, {"code": "ONE"})]
        books = self.shop.integration.get(f"/members/{card.member}/coupon-books", withStockOnly="true")["results"]
        return *problems, len(books)

    def use(self, amount, *, expect=200, **body):
        """Use a part of this value; return the usage, or the problem if `expect` is not 200."""
        body = {"amountDiscounted": amount, **body}
        response = self.shop.integration.post(f"{self.path}/use", body, expect=expect)
        return response["couponUsage"] if expect == 200 else response

    def revert(self, usage, *, expect=200, **body):
        """Revert a usage; return the new usage, or the problem if `expect` is not 200."""
        path = f"/coupon-usages/{usage['couponUsageId']}/revert"
        response = self.shop.administration.post(path, body, expect=expect)
        return response["couponUsages"][0] if expect == 200 else response

    def standing(self):
        """The standing of the member's coupon, None without a coupon."""
        [coupon] = self.shop.integration.get(f"/members/{self.member}/coupons")["results"] or [None]
        return coupon and Standing(coupon["amountAssigned"], coupon["amountUsed"], coupon["remainingValue"])


@pytest.fixture
def card(organization):
    """A book of value coupons of 12.00, of which the member has none."""
    card = Card(organization)
    yield card
    card.shop.check_ledger()


def amounts_of(usage):
    """(amount assigned, amount used, amount discounted, remaining value) of a usage."""
    return usage["amountAssigned"], usage["amountUsed"], usage["amountDiscounted"], usage["remainingValue"]


def test_a_use_takes_a_part_of_the_value_and_a_revert_restores_it(card):
    assert (card.book["isValueCoupon"], card.book["faceValue"]) == (True, 12)
    assert amounts_of(card.assign()) == (1, 0, None, 12)
    usage = card.use(6)
    assert amounts_of(usage) == (0, 0, 6, 12 - 6)
    assert card.standing() == Standing(assigned=1, used=0, remaining=6)
    assert assigned_and_used(card.books, card.book) == (1, 0)
    problem = card.use(7, expect=409)
    assert (problem["type"], problem["available"]) == (EXCEEDED, 6)
    assert problem["detail"] == "The use takes a value of 7; the coupon has 6 left."
    assert amounts_of(card.revert(usage)) == (0, 0, -6, 12)
    assert card.standing() == Standing(assigned=1, used=0, remaining=12)
    assert card.revert(usage, expect=409)["type"] == "/problems/coupon-usage-reverted"


def test_a_coupon_counts_as_used_when_no_value_remains(card):
    card.assign()
    first_usage, last_usage = card.use(Decimal("11.99")), card.use(Decimal("0.01"))
    assert amounts_of(last_usage) == (0, 1, Decimal("0.01"), 0)
    assert card.standing() == Standing(assigned=1, used=1, remaining=0)
    assert assigned_and_used(card.books, card.book) == (1, 1)
    assert card.use(1, expect=409)["type"] == "/problems/coupon-not-assigned"
    # After the revert of the first use some value remains again, and the coupon does not count as used.
    assert amounts_of(card.revert(first_usage)) == (0, -1, Decimal("-11.99"), Decimal("11.99"))
    assert card.standing() == Standing(assigned=1, used=0, remaining=Decimal("11.99"))
    assert assigned_and_used(card.books, card.book) == (1, 0)
    assert amounts_of(card.revert(last_usage)) == (0, 0, Decimal("-0.01"), 12)
    assert card.standing() == Standing(assigned=1, used=0, remaining=12)


def test_the_remaining_value_is_exact_for_any_number_of_digits(organization):
    card = Card(organization, faceValue=Decimal("18446744073708.9"))
    card.assign()
    usage = card.use(Decimal("1e-38"))
    remaining_value = Decimal("18446744073708.89999999999999999999999999999999999999")
    assert amounts_of(usage) == (0, 0, Decimal("1e-38"), remaining_value)
    assert card.standing() == Standing(assigned=1, used=0, remaining=remaining_value)
    assert card.use(Decimal("18446744073708.9"), expect=409)["type"] == EXCEEDED
    assert amounts_of(card.revert(usage)) == (0, 0, Decimal("-1e-38"), Decimal("18446744073708.9"))
    card.shop.check_ledger()


def test_an_assignment_of_several_coupons_has_the_value_of_all(card):
    card.assign(amount=2)
    # 15 of 2 x 12 are one whole coupon and a part of the other.
    assert amounts_of(card.use(15)) == (0, 1, 15, 24 - 15)
    assert card.standing() == Standing(assigned=2, used=1, remaining=9)
    assert amounts_of(card.use(9)) == (0, 1, 9, 0)
    assert card.standing() == Standing(assigned=2, used=2, remaining=0)


def test_a_use_can_assign_the_coupon_and_be_repeated_by_its_key(card):
    body = {"autoAssign": True, "systemUniqueKey": key()}
    usage = card.use(5, **body)
    assert amounts_of(usage) == (0, 0, 5, 12 - 5)
    assert card.standing() == Standing(assigned=1, used=0, remaining=7)
    assert card.use(5, **body) == usage
    assert card.use(4, expect=409, **body)["type"] == "/problems/key-reused"
    assert card.standing() == Standing(assigned=1, used=0, remaining=7)


def test_the_value_of_a_coupon_is_the_face_value_at_its_assignment(card):
    card.assign()
    card.books.change(card.book, faceValue=20)
    assert card.standing() == Standing(assigned=1, used=0, remaining=12)
    card.assign()
    assert card.standing() == Standing(assigned=2, used=0, remaining=12 + 20)


def test_a_use_of_a_value_coupon_needs_an_amount(card):
    card.assign()
    for amount in (None, 0):
        [fault] = card.use(amount, expect=400)["errors"]
        assert fault["pointer"] == "/amountDiscounted"
        assert fault["detail"].startswith("amountDiscounted is not above 0")


def test_a_book_of_value_coupons_needs_a_face_value_and_cannot_become_an_ordinary_book(card):
    assert card.books.expect_refusal(isValueCoupon=True) == ["/faceValue"]
    assert card.books.expect_refusal(isValueCoupon=True, faceValue=0) == ["/faceValue"]
    path = card.books.path(card.book)
    [fault] = card.shop.integration.patch(path, {"faceValue": None}, expect=400)["errors"]
    assert fault["pointer"] == "/faceValue"
    [fault] = card.shop.integration.patch(path, {"isValueCoupon": False}, expect=400)["errors"]
    assert fault["pointer"] == "/isValueCoupon"


def test_a_partly_used_assignment_is_reverted_only_by_force(card):
    assignment = card.assign()
    usage = card.use(5)
    problem = card.revert(assignment, expect=409)
    assert problem["type"] == "/problems/coupon-assignment-used"
    assert problem["detail"] == "0 of the 1 assigned coupons are used, and a value of 7 is left."
    assert amounts_of(card.revert(assignment, forceRevert=True)) == (-1, 0, None, 0)
    assert card.standing() is None
    assert card.use(1, expect=409)["type"] == "/problems/coupon-not-assigned"
    # The value of the use is not restored: its assignment was reverted.
    assert amounts_of(card.revert(usage)) == (0, 0, -5, 0)


# A part of the value of 12, and all of it.
@pytest.mark.parametrize("amount", [5, 12])
def test_cancelling_the_assignment_takes_the_remaining_value_and_the_value_that_a_later_revert_restores(card, amount):
    card.shop.campaign(running(assign(card.book)), eventType=ORDER_CREATED)
    card.shop.track_one(order(card.member, external_id="one"))
    usage = card.use(amount)
    card.shop.track_one(order_update(card.member, "one", "cancelled"))
    # The cancellation cannot take a coupon that is used completely.
    assert assigned_and_used(card.books, card.book) == ((0, 0) if amount == 5 else (1, 1))
    assert card.use(1, expect=409)["type"] == "/problems/coupon-not-assigned"
    card.revert(usage)
    assert assigned_and_used(card.books, card.book) == (0, 0)
    assert card.standing() is None


# A part of the value of 12, and all of it by two uses.
@pytest.mark.parametrize("amounts", [[5], [5, 7]])
def test_a_code_returns_to_the_stock_only_when_all_uses_of_its_value_are_reverted(organization, amounts):
    card = Card(organization, "ONE", type="list")
    assignment = card.assign()
    usages = [card.use(amount) for amount in amounts]
    card.revert(assignment, forceRevert=True)
    for usage in usages:
        assert card.stock_for_others() == ("/problems/coupon-out-of-stock", "/problems/coupon-code-held", 0)
        card.revert(usage)
    other_card = card.for_another_member()
    assert amounts_of(other_card.assign()) == (1, 0, None, 12)
    card.shop.check_ledger()


def test_a_code_whose_value_was_used_returns_to_the_member_who_used_it(organization):
    card = Card(organization, "ONE", type="list")
    assignment = card.assign()
    card.use(5)
    card.revert(assignment, forceRevert=True)
    assert amounts_of(card.assign(code="ONE")) == (1, 0, None, 12)
    card.shop.check_ledger()


def test_a_cancelled_assignment_of_a_code_whose_value_was_used_does_not_return_to_the_stock(organization):
    card = Card(organization, "ONE", type="list")
    card.shop.campaign(running(assign(card.book)), eventType=ORDER_CREATED)
    card.shop.track_one(order(card.member, external_id="one"))
    usage = card.use(5)
    card.shop.track_one(order_update(card.member, "one", "cancelled"))
    assert card.stock_for_others() == ("/problems/coupon-out-of-stock", "/problems/coupon-code-held", 0)
    card.revert(usage)
    assert amounts_of(card.for_another_member().assign(code="ONE")) == (1, 0, None, 12)


def test_limits_of_periods_count_each_use_and_its_money(organization):
    limits = {"maxUsagesPerPeriod": 3, "usagePeriodType": "daily"}
    card = Card(organization, faceValue=12, maxDiscountPerPeriod=8, discountPeriodType="daily", **limits)
    card.assign()
    first_usage = card.use(4)
    # 4 + 5 are more than the limit of 8.
    assert card.use(5, expect=409)["type"] == "/problems/coupon-discount-limit"
    card.use(1)
    card.use(1)
    # The fourth use would be within the limit of the discount: 4 + 1 + 1 + 1.
    assert card.use(1, expect=409)["type"] == "/problems/coupon-usage-limit"
    # The revert gives back one use and a discount of 4: two uses with a discount of 2 remain.
    card.revert(first_usage)
    card.use(6)
    # A value of 12 - 1 - 1 - 6 remains, so the coupon does not count as used.
    assert card.standing() == Standing(assigned=1, used=0, remaining=4)


def test_simulations_effects_and_timelines_report_the_remaining_value_of_a_code(organization):
    card = Card(organization, "GIFT", type="list", name="Gift card")
    card.shop.campaign(running(use(card.book)), eventType=ORDER_CREATED)
    body = {"loyaltyMemberId": card.member, "order": {"total": 100}, "couponCodes": ["GIFT"]}

    def usable_and_discount():
        """(whether the code can be used, its discount) in a simulation."""
        [code] = card.shop.integration.post("/simulations", body, expect=200)["simulation"]["coupons"]
        return code["usable"], code["discount"]

    assert usable_and_discount() == (True, 12)
    card.assign(code="GIFT")
    card.use(5, code="GIFT")
    assert usable_and_discount() == (True, 12 - 5)
    # The effect has no amount.
    [effect] = card.shop.track_one(order(card.member))["effects"]
    assert (effect["status"], effect["error"]["type"]) == ("failed", "/problems/invalid-request")
    newest_usage = card.shop.integration.get(f"/members/{card.member}/coupon-usages")["results"][0]
    card.revert(newest_usage)
    timeline = card.shop.integration.get(f"/members/{card.member}/timeline", kinds="coupon")["results"]
    assert [row["text"] for row in timeline] == [
        "The coupon Gift card was given back after its use was reverted.",
        "The coupon Gift card was used in part.",
        "The coupon Gift card was assigned.",
    ]
    program_id = card.shop.organization.defaults.loyalty_program_id
    path = f"/loyalty-programs/{program_id}/members/{member_id_of(card.shop, card.member)}/coupon-books"
    [book] = card.shop.administration.get(path, includeLastUsage=True)["results"]
    # The only use was reverted.
    assert "lastUsage" not in book


def test_the_remaining_value_is_exported_and_imported(card):
    card.assign()
    card.use(5)
    [row] = map(json.loads, exported_lines(card.shop.organization, kind="coupons"))
    assert (row["amount"], row["remainingValue"]) == (1, 12 - 5)
    columns = "loyaltyMemberId,couponBook,amount,remainingValue\n"
    book, other_member = card.book["name"], card.shop.member()
    # Two coupons of 12 have a value above 12 and up to 24, one has up to 12; so the last two rows fail.
    amounts_and_values = ["1,7", "2,12.5", "2,12", "1,13"]
    lines = [f"{other_member},{book},{amount_and_value}\n" for amount_and_value in amounts_and_values]
    coupons_import = Imports(card.shop.organization).run(columns + "".join(lines), kind="coupons")
    assert status_read_done_failed(coupons_import) == ("done", 4, 2, 2)
    card.member = other_member
    assert card.standing() == Standing(assigned=1 + 2, used=0, remaining=7 + Decimal("12.5"))
