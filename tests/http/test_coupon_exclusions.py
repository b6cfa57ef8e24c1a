"""Why a book is closed to a member: reasons in lists, and refusals, on both surfaces."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from handlers.services.coupons import member_books
from handlers.services.unit_of_work import deadlines
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
    return {"ledgerAccountKey": organization.defaults.ledger_account_key}


class BookOfMember:
    """A coupon book from the side of one member, on both surfaces; `record` is the book."""

    def __init__(self, books, member, record):
        self.books, self.member, self.record = books, member, record
        self.path = f"/members/{member['loyaltyMemberId']}/coupon-books/{record['couponBookKey']}"

    def do(self, verb, *, expect=200, **body):
        """Assign or use coupons of the book; `verb` is `assign` or `use`."""
        return self.books.organization.integration.post(f"{self.path}/{verb}", body, expect=expect)

    def refusals(self, verb, **body):
        """The types of the problems on the integration and the administration surface, without their prefix."""
        problem = self.do(verb, expect=409, **body)
        fields = {"memberId": self.member["memberId"]}
        path = f"/coupon-books/{self.record['couponBookId']}/{verb}"
        administration_problem = self.books.organization.administration.post(path, fields, expect=409)
        return problem["type"].removeprefix("/problems/"), administration_problem["type"].removeprefix("/problems/")

    def reasons(self, **query):
        """The reasons why the book is excluded for the member; the lists of eligible books must agree."""
        path = f"/members/{self.member['loyaltyMemberId']}/coupon-books"
        query_of_book = {"couponBookKey": self.record["couponBookKey"], **query}
        [entry] = self.books.organization.integration.get(path, dryRun=True, **query_of_book)["results"]
        assert (self.books.organization.integration.get(path, **query_of_book)["totalCount"] == 1) == entry["eligible"]
        # The query restricts only the list of the member.
        assert self.list_for_program()["totalCount"] == int(entry["eligible"] or bool(query))
        return [reason["code"] for reason in entry["exclusionReasons"]]

    def list_for_program(self, **query):
        """The list of the program for the member, restricted to the book."""
        program = self.books.organization.defaults.loyalty_program_id
        path = f"/loyalty-programs/{program}/members/{self.member['memberId']}/coupon-books"
        return self.books.organization.administration.get(path, couponBookId=self.record["couponBookId"], **query)


@pytest.fixture
def make_book(books, ana):
    """A function that creates a book, codeless by default, and returns it from the side of Ana."""

    def make(*codes, **fields):
        return BookOfMember(books, ana, books.make(*codes, **{"type": "codeless", **fields}))

    return make


def test_a_book_whose_quota_is_reached_is_excluded_unless_the_member_can_use_a_coupon(make_book):
    book = make_book(maxAssignedPerMember=1)
    book.do("assign")
    assert book.refusals("assign") == ("coupon-quota", "coupon-quota")
    assert book.reasons() == []
    book.do("use")
    assert book.reasons() == ["coupon-quota"]


def test_a_book_is_excluded_when_the_uses_of_the_period_are_used_up(make_book):
    book = make_book(maxUsagesPerPeriod=1, usagePeriodType="monthly", timezone="Pacific/Apia")
    book.do("assign", amount=2)
    book.do("use")
    assert book.refusals("use") == ("coupon-usage-limit", "coupon-usage-limit")
    assert book.reasons() == ["coupon-usage-limit"]


def test_uses_beyond_the_maximum_discount_of_a_period_are_refused(make_book):
    book = make_book(maxDiscountPerPeriod=10, discountPeriodType="weekly", maxDiscountPerUse=9)
    book.do("assign", amount=5)
    # The maximum of a use is 9.
    assert book.do("use", amountDiscounted=9.5, expect=409)["type"] == "/problems/coupon-discount-too-high"
    book.do("use", amountDiscounted=8)
    # Of the discount of 10, 2 are left in this week.
    assert book.do("use", amountDiscounted=2.5, expect=409)["type"] == "/problems/coupon-discount-limit"
    assert book.reasons() == []
    book.do("use", amountDiscounted=2)
    assert book.do("use", amountDiscounted=0.5, expect=409)["type"] == "/problems/coupon-discount-limit"
    # A use without a discount is still possible, so the book is listed.
    assert book.reasons() == []
    book.do("use")


def test_the_minimum_total_of_an_order_applies_if_the_total_is_sent(make_book):
    book = make_book(minOrderTotal=30)
    problem = book.do("assign", orderTotal=29.99, expect=409)
    assert problem["type"] == "/problems/coupon-order-total"
    assert problem["detail"] == "The coupon book needs an order of at least 30, and this one has a total of 29.99."
    book.do("assign", orderTotal=30)
    # A request without a total is not checked.
    book.do("assign", amount=3)
    assert book.do("use", orderTotal=0, expect=409)["type"] == "/problems/coupon-order-total"
    book.do("use", orderTotal=30.01)
    book.do("use")
    # The minimum applies on the administration surface, too.
    body = {"memberId": book.member["memberId"], "orderTotal": 29}
    path = f"/coupon-books/{book.record['couponBookId']}/use"
    problem = book.books.organization.administration.post(path, body, expect=409)
    assert problem["type"] == "/problems/coupon-order-total"
    # The list is requested without a total, so the book is open in it.
    assert book.reasons() == []


def test_a_repeated_use_must_have_the_same_order_total(make_book):
    book = make_book(minOrderTotal=30)
    book.do("assign", amount=5)
    first_response = book.do("use", systemUniqueKey="use-1", orderTotal=30)
    assert book.do("use", systemUniqueKey="use-1", orderTotal=30) == first_response
    for other_total in ({}, {"orderTotal": 31}):
        assert book.do("use", systemUniqueKey="use-1", expect=409, **other_total)["type"] == "/problems/key-reused"


def test_a_book_is_excluded_while_the_member_has_too_few_points(make_book, shop, points):
    book = make_book(assignmentRequiredPoints=10, usageRequiredPoints=5, requiredPointsConfig=points)
    assert book.refusals("assign") == ("insufficient-balance", "insufficient-balance")
    # 10 for the assignment and 5 for a use.
    shop.give("ana", 15)
    assert book.reasons() == []
    book.do("assign")
    # 15 - 10 are enough for a use, 4 are not.
    assert book.reasons() == []
    shop.take("ana", 1)
    assert book.reasons() == ["insufficient-balance"]
    assert book.refusals("use") == ("insufficient-balance", "insufficient-balance")


def test_a_book_without_free_codes_is_excluded_if_the_list_is_only_of_books_with_stock(make_book):
    book = make_book("A", type="list")
    book.do("assign")
    assert book.refusals("assign") == ("coupon-out-of-stock", "coupon-out-of-stock")
    assert book.reasons() == []
    assert book.reasons(withStockOnly=True) == ["coupon-out-of-stock"]
    assert book.list_for_program(outOfStock=True)["totalCount"] == 1
    assert book.list_for_program(outOfStock=False)["totalCount"] == 0


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
def test_a_book_is_excluded_while_its_status_its_dates_or_its_condition_close_it(make_book, fields, reason):
    book = make_book(**fields)
    assert book.refusals("assign") == (reason, reason)
    assert book.refusals("use") == (reason, reason)
    assert book.reasons() == [reason]


def test_archived_books_are_excluded(make_book, books):
    book = make_book()
    book.do("assign")
    books.set_status(book.record, "archived")
    assert book.refusals("use") == ("coupon-book-archived", "coupon-book-archived")
    assert book.refusals("assign") == ("coupon-book-archived", "coupon-book-archived")
    assert book.reasons() == ["coupon-book-archived"]


def test_a_book_for_other_days_of_the_week_is_excluded(make_book):
    today = datetime.now(UTC).isoweekday()
    # Three and four days after today.
    book = make_book(daysOfWeek=[(today + 2) % 7 + 1, (today + 3) % 7 + 1])
    assert book.refusals("assign") == ("coupon-book-day", "coupon-book-day")
    assert book.reasons() == ["coupon-book-day"]


def test_books_for_other_tiers_or_audiences_are_excluded(make_book, shop):
    path = f"/loyalty-programs/{shop.organization.defaults.loyalty_program_id}/tiers"
    body = {"name": "Gold", "active": True, "minRequiredPoints": 10**9, "tierOrder": 9}
    tier = shop.administration.post(path, body)["tier"]
    audience = shop.administration.post("/audiences", {"matcherType": "null-matcher"})["audience"]
    book = make_book(tierKeys=[tier["loyaltyTierKey"]], audienceKeys=[audience["audienceKey"]])
    assert book.refusals("assign") == ("coupon-book-tier", "coupon-book-tier")
    assert book.reasons() == ["coupon-book-tier", "coupon-book-audience"]
    book = make_book(audienceKeys=[audience["audienceKey"]])
    assert book.refusals("use") == ("coupon-book-audience", "coupon-book-audience")
    assert book.reasons() == ["coupon-book-audience"]


def test_the_totals_and_the_last_usage_of_a_book_are_those_of_the_member(make_book, books, organization):
    book = make_book(maxUsagesPerPeriod=9, usagePeriodType="daily")
    bobs_book = BookOfMember(books, organization.member("bob"), book.record)
    book.do("assign", amount=3)
    bobs_book.do("assign", amount=2)
    book.do("use")
    [entry] = book.list_for_program(includeLastUsage=True)["results"]
    usage = book.do("use")["couponUsage"]
    assert (entry["totalAssigned"], entry["totalUsages"]) == (3, 1)
    [entry] = book.list_for_program(includeLastUsage=True)["results"]
    assert entry["lastUsage"] == usage
    assert "lastUsage" not in bobs_book.list_for_program(includeLastUsage=True)["results"][0]
    assert "lastUsage" not in book.list_for_program()["results"][0]
    path = f"/members/ana/coupon-usages/{usage['couponUsageKey']}/revert"
    organization.integration.post(path, expect=200)
    [entry] = book.list_for_program(includeLastUsage=True)["results"]
    assert entry["totalUsages"] == 1
    # The first use is the last one again.
    assert entry["lastUsage"]["couponUsageId"] < usage["couponUsageId"]


def test_a_program_lists_its_own_books_and_books_without_a_program(make_book, books, organization):
    path = f"/loyalty-programs/{organization.defaults.loyalty_program_id}"
    listing_program = organization.administration.get(path)["loyaltyProgram"]
    body = {"ledgerId": organization.defaults.ledger_id, "description": "Other", "setAsDefault": False}
    other_program = organization.administration.post("/loyalty-programs", body)["loyaltyProgram"]
    for program, expected_count in ((listing_program, 1), (other_program, 0)):
        book = make_book(loyaltyProgramKey=program["loyaltyProgramKey"], tags=["x"])
        assert book.list_for_program(tags="x")["totalCount"] == expected_count
    assert make_book().list_for_program()["totalCount"] == 1


@pytest.mark.parametrize(("module", "limit"), [(deadlines, "_call_seconds"), (member_books, "_CONDITIONS_SECONDS")])
def test_a_list_of_books_is_refused_if_their_conditions_take_too_long(
    make_book, organization, monkeypatch, module, limit
):
    condition = {"expression": "member.loyaltyMemberId == 'ana'"}
    book_with_condition = make_book(condition=condition)
    future_book = make_book(condition=condition, validFromDate="2100-01-01T00:00:00Z")
    # A book without a condition.
    make_book()

    def list_books(*, expect=200, **query):
        """The list of books for Ana, or the problem."""
        return organization.integration.get("/members/ana/coupon-books", expect=expect, **query)

    # All but the future book.
    assert list_books()["totalCount"] == 2
    # With 0 seconds, no condition can be evaluated.
    monkeypatch.setattr(module, limit, 0.0)
    for query in ({}, {"dryRun": True}, {"couponBookKey": book_with_condition.record["couponBookKey"]}):
        assert list_books(expect=503, **query)["type"] == "/problems/deadline-exceeded"
    # The dates decide about this book, without its condition.
    assert list_books(couponBookKey=future_book.record["couponBookKey"])["totalCount"] == 0
    book_with_condition.books.set_status(book_with_condition.record, "disabled")
    # Only the book without a condition is left, which needs no time.
    assert list_books()["totalCount"] == 1
