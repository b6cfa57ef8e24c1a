"""The coupon books of a member over HTTP: which ones the member could use now, and why the others are excluded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.builders.coupons import CouponBooks
from tests.builders.points import Points
from tests.builders.statements import parameters_of_statements_about
from tests.builders.tracking import Shop


@pytest.fixture
def books(organization):
    return CouponBooks(organization)


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def ana(organization):
    """The loyaltyMemberId of a new member."""
    return organization.member("ana")["loyaltyMemberId"]


@pytest.fixture
def price_in_points(organization):
    """The requiredPointsConfig of books whose price is in points of the default account."""
    return {"ledgerAccountKey": organization.defaults.ledger_account_key}


@pytest.fixture
def tier(organization):
    """A tier that no member reaches by points."""
    path = f"/loyalty-programs/{organization.defaults.loyalty_program_id}/tiers"
    body = {"name": "Gold", "active": True, "minRequiredPoints": 10**9, "tierOrder": 9}
    return organization.administration.post(path, body)["tier"]


def list_books(books, member, **query):
    """A page of the coupon books of a member."""
    return books.organization.integration.get(f"/members/{member}/coupon-books", **query)


def keys(page):
    """The keys of the books of a page."""
    return [book["couponBookKey"] for book in page["results"]]


def reasons_and_check_list(books, member, book, **query):
    """The codes of the reasons why the book is excluded; assert that the list of eligible books agrees."""
    [entry] = list_books(books, member, dryRun=True, couponBookKey=book["couponBookKey"], **query)["results"]
    codes = [reason["code"] for reason in entry["exclusionReasons"]]
    assert entry["eligible"] == (not codes)
    eligible_books = list_books(books, member, couponBookKey=book["couponBookKey"], **query)
    assert keys(eligible_books) == ([] if codes else [book["couponBookKey"]])
    assert eligible_books["totalCount"] == len(eligible_books["results"])
    return codes


def test_an_eligible_book_is_listed_without_reasons(books, ana):
    book = books.make("A")
    page = list_books(books, ana)
    entry = {**book, "eligible": True, "exclusionReasons": []}
    assert page == {"totalCount": 1, "page": 0, "limit": 25, "results": [entry]}
    assert list_books(books, ana, dryRun=True) == page


def test_books_are_paged_and_ordered(books, ana):
    book_keys = [books.make(name=f"N{n}", rankingIndex=-n)["couponBookKey"] for n in range(5)]
    books.make(name="hidden", publishingStatus="draft")
    # Only a dry run lists the excluded draft, too.
    for dry_run, total in ((False, 5), (True, 6)):
        pages = [
            list_books(books, ana, dryRun=dry_run, page=number, limit=2, order="couponBookId") for number in range(4)
        ]
        assert [key for page in pages for key in keys(page)][:5] == book_keys
        assert {page["totalCount"] for page in pages} == {total}
    # By default the newest book is first.
    assert keys(list_books(books, ana)) == book_keys[::-1]
    assert keys(list_books(books, ana, order="rankingIndex")) == book_keys[::-1]
    assert keys(list_books(books, ana, order="name,desc", limit=1, page=1)) == book_keys[3:4]


@pytest.mark.parametrize(
    ("parameter", "value"), [("order", "totalAssigned"), ("limit", 101), ("limit", 0), ("search", "x")]
)
def test_an_invalid_query_of_the_books_of_a_member_is_refused(books, ana, parameter, value):
    problem = list_books(books, ana, expect=400, **{parameter: value})
    assert [fault["parameter"] for fault in problem["errors"]] == [parameter]


@pytest.mark.parametrize("query", [{}, {"withStockOnly": True}], ids=["without stock", "with stock"])
def test_only_the_books_of_the_page_are_read_as_a_whole(api, books, ana, query):
    attributes = {"menu": ["espresso", "latte"]}
    all_books = [books.make("A", maxCouponCount=10, customAttributes=attributes) for _ in range(5)]
    with parameters_of_statements_about(api.engine, "detail_picture_url") as parameters:
        page = list_books(books, ana, page=1, limit=2, order="couponBookId", **query)
    assert page["totalCount"] == 5
    assert page["results"] == [{**book, "eligible": True, "exclusionReasons": []} for book in all_books[2:4]]
    [parameters_of_statement] = parameters
    assert parameters_of_statement["coupon_book_id"] == [book["couponBookId"] for book in all_books[2:4]]


def test_an_empty_page_reads_no_book_as_a_whole(api, books, ana):
    books.make("A")
    with parameters_of_statements_about(api.engine, "detail_picture_url") as parameters:
        assert list_books(books, ana, page=7)["results"] == []
    assert parameters == []


@pytest.mark.parametrize("status", ["draft", "disabled", "archived"])
def test_an_unpublished_book_is_excluded_by_its_status(books, ana, status):
    book = books.make()
    books.set_status(book, status)
    expected_reason = "coupon-book-archived" if status == "archived" else "coupon-book-not-published"
    assert reasons_and_check_list(books, ana, book) == [expected_reason]


def test_a_book_is_excluded_outside_its_dates(books, ana):
    now = datetime.now(UTC)
    later, earlier = (now + timedelta(days=9)).isoformat(), (now - timedelta(days=9)).isoformat()
    assert reasons_and_check_list(books, ana, books.make(validFromDate=later)) == ["coupon-book-not-yet-valid"]
    assert reasons_and_check_list(books, ana, books.make(validToDate=earlier)) == ["coupon-book-expired"]
    assert reasons_and_check_list(books, ana, books.make(validFromDate=earlier, validToDate=later)) == []


def test_a_book_is_excluded_except_on_its_days_of_the_week(books, ana):
    today = datetime.now(UTC).isoweekday()
    other_days = sorted({1, 2, 3, 4, 5, 6, 7} - {today, today % 7 + 1})
    # Today or tomorrow, because it may be midnight now.
    assert reasons_and_check_list(books, ana, books.make(daysOfWeek=other_days)) == ["coupon-book-day"]
    assert reasons_and_check_list(books, ana, books.make(daysOfWeek=[today, today % 7 + 1])) == []


def test_a_book_is_excluded_by_tier_audience_and_condition(books, ana, shop, tier):
    audience = shop.administration.post("/audiences", {"matcherType": "list-matcher"})["audience"]
    member_id = shop.integration.get(f"/members/{ana}")["loyaltyMember"]["memberId"]
    book = books.make(
        tierKeys=[tier["loyaltyTierKey"]],
        audienceKeys=[audience["audienceKey"]],
        condition={"expression": f"'{tier['loyaltyTierKey']}' in tiers && size(audiences) == 1"},
    )
    assert reasons_and_check_list(books, ana, book) == [
        "coupon-book-tier",
        "coupon-book-audience",
        "coupon-book-condition",
    ]
    shop.administration.patch(f"/audiences/{audience['audienceId']}/members", {"add": [member_id]})
    assert reasons_and_check_list(books, ana, book) == ["coupon-book-tier", "coupon-book-condition"]
    program = shop.administration.get(f"/loyalty-programs/{shop.organization.defaults.loyalty_program_id}")
    path = f"/members/{ana}/loyalty-programs/{program['loyaltyProgram']['loyaltyProgramKey']}/tier"
    shop.integration.put(path, {"loyaltyTierKey": tier["loyaltyTierKey"]})
    assert reasons_and_check_list(books, ana, book) == []


@pytest.mark.parametrize(
    ("expression", "is_true"),
    [
        ("member.memberType == 'regular' && member.profile.city == 'Rosario'", True),
        ("member.customAttributes.level > 2", True),
        ("member.customAttributes.missing > 2", False),
        ("now > timestamp('2026-01-01T00:00:00Z')", True),
        ("balances['ACCOUNT'] >= 10.5", True),
        ("balances['ACCOUNT'] > 10.5", False),
        ("badges['BADGE'] == 2", True),
    ],
)
def test_conditions_of_books_see_the_fields_and_balances_and_badges_of_the_member(books, shop, expression, is_true):
    shop.organization.member("bob", memberType="regular", profile={"city": "Rosario"}, customAttributes={"level": 3})
    account = shop.account(decimals=2)
    shop.give("bob", 11, ledgerAccountId=account["ledgerAccountId"])
    # 11 - 0.5 = 10.5
    shop.take("bob", 0.5, ledgerAccountId=account["ledgerAccountId"])
    badge = shop.integration.post("/badges", {"name": "Early", "maxAmount": 5, "active": True})["badge"]
    shop.integration.post(f"/members/bob/badges/{badge['badgeKey']}/assign", {"amount": 2}, expect=200)
    text = expression.replace("ACCOUNT", account["ledgerAccountKey"]).replace("BADGE", badge["badgeKey"])
    assert reasons_and_check_list(books, "bob", books.make(condition={"expression": text})) == (
        [] if is_true else ["coupon-book-condition"]
    )


def test_a_condition_of_a_listed_book_sees_only_the_points_that_the_member_can_spend(books, shop, ana):
    shop.give(ana, 100)
    points = Points.default(shop.organization)
    wallet = shop.integration.get(f"/members/{ana}")["loyaltyMember"]["ledgerWalletId"]
    book = books.make(type="codeless", condition={"expression": "balances.points >= 100.0"})
    assert reasons_and_check_list(books, ana, book) == []
    # A pending burn holds 1 of the points.
    points.burn(wallet, 1, captureMethod="manual")
    assert reasons_and_check_list(books, ana, book) == ["coupon-book-condition"]
    path = f"/members/{ana}/coupon-books/{book['couponBookKey']}/use"
    assert shop.integration.post(path, {"autoAssign": True}, expect=409)["type"] == "/problems/coupon-book-condition"


def test_a_member_needs_the_points_for_the_assignment_and_the_use_of_a_book(books, shop, ana, price_in_points):
    book = books.make(assignmentRequiredPoints=10, usageRequiredPoints=5, requiredPointsConfig=price_in_points)
    # One less than 10 + 5.
    shop.give(ana, 14)
    assert reasons_and_check_list(books, ana, book) == ["insufficient-balance"]
    shop.give(ana, 1)
    assert reasons_and_check_list(books, ana, book) == []


def test_books_without_stock_are_excluded_only_on_request(books, ana):
    for empty_book, book_with_stock in (
        (books.make(), books.make("A")),
        (books.make(type="codeless", maxCouponCount=0), books.make(type="codeless")),
        (books.make(type="generated", maxCouponCount=0), books.make(type="generated", maxCouponCount=1)),
        (books.make("B", type="single", maxAssignedPerCoupon=0), books.make("C", type="single", maxCouponCount=1)),
        (books.make(type="single"), books.make("D", type="single")),
    ):
        assert reasons_and_check_list(books, ana, empty_book) == []
        assert reasons_and_check_list(books, ana, empty_book, withStockOnly=True) == ["coupon-out-of-stock"]
        assert reasons_and_check_list(books, ana, book_with_stock, withStockOnly=True) == []
        assert reasons_and_check_list(books, ana, empty_book, withStockOnly=False) == []


def test_an_inactive_member_is_excluded_from_books(books, organization):
    organization.member("eve", active=False)
    assert reasons_and_check_list(books, "eve", books.make()) == ["member-inactive"]


def test_every_reason_has_a_detail(books, ana):
    book = books.make(publishingStatus="draft", validToDate="2026-01-01T00:00:00Z")
    [entry] = list_books(books, ana, dryRun=True, couponBookKey=book["couponBookKey"])["results"]
    assert entry["exclusionReasons"] == [
        {"code": "coupon-book-not-published", "detail": "The coupon book is draft."},
        {"code": "coupon-book-expired", "detail": "The coupon book was valid until 2026-01-01T00:00:00Z."},
    ]


def test_the_parameter_locale_is_deprecated(books, ana):
    reply = books.surface.request("GET", f"/members/{ana}/coupon-books", locale="es", expect=200)
    assert reply.headers["Deprecation"].startswith("@")


def test_the_list_of_an_unknown_member_is_not_found(books):
    problem = books.organization.integration.get("/members/nobody/coupon-books", expect=404)
    assert problem["type"] == "/problems/not-found"
