"""Why a book is closed to a member: reasons in lists, and refusals, on both surfaces."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from handlers.services.coupons import member_books
from handlers.services.unit_of_work import evaluation
from tests.builders.coupons import CouponBooks
from tests.builders.tracking import Shop


@pytest.fixture
def books(organization):
    return CouponBooks(organization)


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def ana(organization):
    return organization.member("ana")


@pytest.fixture
def points(organization):
    return {"ledgerAccountKey": organization.created.ledger_account_key}


class Visitor:
    """A member who wants coupons of a book, on both surfaces."""

    def __init__(self, books, member, book):
        self.books, self.member, self.book = books, member, book
        self.path = f"/members/{member['loyaltyMemberId']}/coupon-books/{book['couponBookKey']}"

    def do(self, verb, *, expect=200, **body):
        return self.books.organization.integration.post(f"{self.path}/{verb}", body, expect=expect)

    def refusals(self, verb, **body):
        """The types of the problems on the integration and the administration surface, without their prefix."""
        problem = self.do(verb, expect=409, **body)
        fields = {"memberId": self.member["memberId"]}
        path = f"/coupon-books/{self.book['couponBookId']}/{verb}"
        other = self.books.organization.administration.post(path, fields, expect=409)
        return problem["type"].removeprefix("/problems/"), other["type"].removeprefix("/problems/")

    def reasons(self, **query):
        """The reasons why the book is excluded for the member; the lists of eligible books must agree."""
        path = f"/members/{self.member['loyaltyMemberId']}/coupon-books"
        query_of_book = {"couponBookKey": self.book["couponBookKey"], **query}
        [entry] = self.books.organization.integration.get(path, dryRun=True, **query_of_book)["results"]
        assert (self.books.organization.integration.get(path, **query_of_book)["totalCount"] == 1) == entry["eligible"]
        # The query restricts only the list of the member.
        assert self.list_for_program()["totalCount"] == int(entry["eligible"] or bool(query))
        return [reason["code"] for reason in entry["exclusionReasons"]]

    def list_for_program(self, **query):
        program = self.books.organization.created.loyalty_program_id
        path = f"/loyalty-programs/{program}/members/{self.member['memberId']}/coupon-books"
        return self.books.organization.administration.get(path, couponBookId=self.book["couponBookId"], **query)


@pytest.fixture
def visit(books, ana):
    def start(*codes, **fields):
        return Visitor(books, ana, books.make(*codes, **{"type": "codeless", **fields}))

    return start


def test_a_book_whose_quota_is_reached_is_excluded_unless_the_member_can_use_a_coupon(visit):
    visitor = visit(maxAssignedPerMember=1)
    visitor.do("assign")
    assert visitor.refusals("assign") == ("coupon-quota", "coupon-quota")
    assert visitor.reasons() == []
    visitor.do("use")
    assert visitor.reasons() == ["coupon-quota"]


def test_a_book_is_excluded_when_the_uses_of_the_period_are_used_up(visit):
    visitor = visit(maxUsagesPerPeriod=1, usagePeriodType="monthly", timezone="Pacific/Apia")
    visitor.do("assign", amount=2)
    visitor.do("use")
    assert visitor.refusals("use") == ("coupon-usage-limit", "coupon-usage-limit")
    assert visitor.reasons() == ["coupon-usage-limit"]


def test_the_discounts_of_a_period_are_limited(visit):
    visitor = visit(maxDiscountPerPeriod=10, discountPeriodType="weekly", maxDiscountPerUse=9)
    visitor.do("assign", amount=5)
    assert visitor.do("use", amountDiscounted=9.5, expect=409)["type"] == "/problems/coupon-discount-too-high"
    visitor.do("use", amountDiscounted=8)
    # 2 remain in this week.
    assert visitor.do("use", amountDiscounted=2.5, expect=409)["type"] == "/problems/coupon-discount-limit"
    assert visitor.reasons() == []
    visitor.do("use", amountDiscounted=2)
    assert visitor.do("use", amountDiscounted=0.5, expect=409)["type"] == "/problems/coupon-discount-limit"
    # A use without a discount is still possible, so the book is listed.
    assert visitor.reasons() == []
    visitor.do("use")


def test_the_minimum_total_of_an_order_applies_if_the_total_is_sent(visit):
    visitor = visit(minOrderTotal=30)
    problem = visitor.do("assign", orderTotal=29.99, expect=409)
    assert problem["type"] == "/problems/coupon-order-total"
    assert problem["detail"] == "The coupon book needs an order of at least 30, and this one has a total of 29.99."
    visitor.do("assign", orderTotal=30)
    # A request without a total is not checked.
    visitor.do("assign", amount=3)
    assert visitor.do("use", orderTotal=0, expect=409)["type"] == "/problems/coupon-order-total"
    visitor.do("use", orderTotal=30.01)
    visitor.do("use")
    # The minimum applies on the administration surface, too.
    body = {"memberId": visitor.member["memberId"], "orderTotal": 29}
    path = f"/coupon-books/{visitor.book['couponBookId']}/use"
    problem = visitor.books.organization.administration.post(path, body, expect=409)
    assert problem["type"] == "/problems/coupon-order-total"
    # The list is requested without a total, so the book is open in it.
    assert visitor.reasons() == []


def test_a_repeated_use_must_have_the_same_total(visit):
    visitor = visit(minOrderTotal=30)
    visitor.do("assign", amount=5)
    first = visitor.do("use", systemUniqueKey="use-1", orderTotal=30)
    assert visitor.do("use", systemUniqueKey="use-1", orderTotal=30) == first
    for other in ({}, {"orderTotal": 31}):
        assert visitor.do("use", systemUniqueKey="use-1", expect=409, **other)["type"] == "/problems/key-reused"


def test_a_book_is_excluded_while_points_are_missing(visit, shop, points):
    visitor = visit(assignmentRequiredPoints=10, usageRequiredPoints=5, requiredPointsConfig=points)
    assert visitor.refusals("assign") == ("insufficient-balance", "insufficient-balance")
    shop.give("ana", 15)
    assert visitor.reasons() == []
    visitor.do("assign")
    # 15 - 10 are enough for a use, 4 are not.
    assert visitor.reasons() == []
    shop.take("ana", 1)
    assert visitor.reasons() == ["insufficient-balance"]
    assert visitor.refusals("use") == ("insufficient-balance", "insufficient-balance")


def test_a_book_without_free_codes_is_excluded_on_request(visit):
    visitor = visit("A", type="list")
    visitor.do("assign")
    assert visitor.refusals("assign") == ("coupon-out-of-stock", "coupon-out-of-stock")
    assert visitor.reasons() == []
    assert visitor.reasons(withStockOnly=True) == ["coupon-out-of-stock"]
    assert visitor.list_for_program(outOfStock=True)["totalCount"] == 1
    assert visitor.list_for_program(outOfStock=False)["totalCount"] == 0


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"publishingStatus": "draft"}, "coupon-book-not-published"),
        ({"publishingStatus": "disabled"}, "coupon-book-not-published"),
        ({"validFromDate": "2999-01-01T00:00:00Z"}, "coupon-book-not-yet-valid"),
        ({"validToDate": "2020-01-01T00:00:00Z"}, "coupon-book-expired"),
        ({"condition": {"expression": "!member.active"}}, "coupon-book-condition"),
    ],
)
def test_closed_books_are_excluded(visit, fields, reason):
    visitor = visit(**fields)
    assert visitor.refusals("assign") == (reason, reason)
    assert visitor.refusals("use") == (reason, reason)
    assert visitor.reasons() == [reason]


def test_archived_books_are_excluded(visit, books):
    visitor = visit()
    visitor.do("assign")
    books.set_status(visitor.book, "archived")
    assert visitor.refusals("use") == ("coupon-book-archived", "coupon-book-archived")
    assert visitor.refusals("assign") == ("coupon-book-archived", "coupon-book-archived")
    assert visitor.reasons() == ["coupon-book-archived"]


def test_books_of_another_day_are_excluded(visit):
    today = datetime.now(UTC).isoweekday()
    # Three and four days after today.
    visitor = visit(daysOfWeek=[(today + 2) % 7 + 1, (today + 3) % 7 + 1])
    assert visitor.refusals("assign") == ("coupon-book-day", "coupon-book-day")
    assert visitor.reasons() == ["coupon-book-day"]


def test_books_for_other_tiers_or_audiences_are_excluded(visit, shop):
    path = f"/loyalty-programs/{shop.organization.created.loyalty_program_id}/tiers"
    body = {"name": "Gold", "active": True, "minRequiredPoints": 10**9, "tierOrder": 9}
    tier = shop.administration.post(path, body)["tier"]
    audience = shop.administration.post("/audiences", {"matcherType": "null-matcher"})["audience"]
    visitor = visit(tierKeys=[tier["loyaltyTierKey"]], audienceKeys=[audience["audienceKey"]])
    assert visitor.refusals("assign") == ("coupon-book-tier", "coupon-book-tier")
    assert visitor.reasons() == ["coupon-book-tier", "coupon-book-audience"]
    visitor = visit(audienceKeys=[audience["audienceKey"]])
    assert visitor.refusals("use") == ("coupon-book-audience", "coupon-book-audience")
    assert visitor.reasons() == ["coupon-book-audience"]


def test_the_totals_and_the_last_usage_of_a_book_are_those_of_the_member(visit, books, organization):
    visitor = visit(maxUsagesPerPeriod=9, usagePeriodType="daily")
    other = Visitor(books, organization.member("bob"), visitor.book)
    visitor.do("assign", amount=3)
    other.do("assign", amount=2)
    visitor.do("use")
    [entry] = visitor.list_for_program(includeLastUsage=True)["results"]
    usage = visitor.do("use")["couponUsage"]
    assert (entry["totalAssigned"], entry["totalUsages"]) == (3, 1)
    [entry] = visitor.list_for_program(includeLastUsage=True)["results"]
    assert entry["lastUsage"] == usage
    assert "lastUsage" not in other.list_for_program(includeLastUsage=True)["results"][0]
    assert "lastUsage" not in visitor.list_for_program()["results"][0]
    path = f"/members/ana/coupon-usages/{usage['couponUsageKey']}/revert"
    organization.integration.post(path, expect=200)
    [entry] = visitor.list_for_program(includeLastUsage=True)["results"]
    assert (entry["totalUsages"], entry["lastUsage"]["couponUsageId"] < usage["couponUsageId"]) == (1, True)


def test_a_program_lists_its_own_books_and_books_without_a_program(visit, books, organization):
    path = f"/loyalty-programs/{organization.created.loyalty_program_id}"
    listing_program = organization.administration.get(path)["loyaltyProgram"]
    body = {"ledgerId": organization.created.ledger_id, "description": "Other", "setAsDefault": False}
    other = organization.administration.post("/loyalty-programs", body)["loyaltyProgram"]
    for program, count in ((listing_program, 1), (other, 0)):
        visitor = visit(loyaltyProgramKey=program["loyaltyProgramKey"], tags=["x"])
        assert visitor.list_for_program(tags="x")["totalCount"] == count
    assert visit().list_for_program()["totalCount"] == 1


@pytest.mark.parametrize(("module", "limit"), [(evaluation, "_call_seconds"), (member_books, "_CONDITIONS_SECONDS")])
def test_a_list_whose_conditions_take_too_long_is_refused(visit, organization, monkeypatch, module, limit):
    condition = {"expression": "member.loyaltyMemberId == 'ana'"}
    visitor, future_visitor = (
        visit(condition=condition),
        visit(condition=condition, validFromDate="2100-01-01T00:00:00Z"),
    )
    visit()

    def list_books(*, expect=200, **query):
        return organization.integration.get("/members/ana/coupon-books", expect=expect, **query)

    assert list_books()["totalCount"] == 2
    # A list has no time left for conditions.
    monkeypatch.setattr(module, limit, 0.0)
    for query in ({}, {"dryRun": True}, {"couponBookKey": visitor.book["couponBookKey"]}):
        assert list_books(expect=503, **query)["type"] == "/problems/deadline-exceeded"
    # The dates decide about this book, without its condition.
    assert list_books(couponBookKey=future_visitor.book["couponBookKey"])["totalCount"] == 0
    visitor.books.set_status(visitor.book, "disabled")
    assert list_books()["totalCount"] == 1
