"""The codes of coupon books over HTTP: added, listed, read and changed."""

from __future__ import annotations

import pytest

from tests.builders.api import Surface
from tests.builders.coupons import CouponBooks


@pytest.fixture(params=["integration", "administration"])
def books(request, organization):
    return CouponBooks(organization, request.param)


@pytest.fixture
def administration(organization):
    return CouponBooks(organization, "administration")


def list_codes(books: CouponBooks, book, **query):
    """A page of the coupons of a book, newest first by default."""
    return books.surface.get(f"{books.path(book)}/coupons", **query)


def codes_of(page):
    return [coupon["code"] for coupon in page["results"]]


def test_codes_are_added_in_the_order_of_the_request(books):
    book = books.make()
    first_coupon, second_coupon = books.add(book, "B-1", "A 2")
    assert first_coupon == {
        "couponId": first_coupon["couponId"],
        "couponBookId": book["couponBookId"],
        "code": "B-1",
        "totalAssigned": 0,
        "totalUsages": 0,
        "customAttributes": {},
        "expiredAt": None,
        "createdAt": first_coupon["createdAt"],
        "updatedAt": first_coupon["createdAt"],
    }
    assert second_coupon["couponId"] > first_coupon["couponId"]
    page = list_codes(books, book)
    assert page == {
        "totalCount": 2,
        "page": 0,
        "limit": 25,
        "nextCursor": None,
        "results": [second_coupon, first_coupon],
    }
    assert books.get(book) == book


def test_lists_of_codes_are_paged_and_ordered(books):
    book = books.make(*(f"C{n:02}" for n in range(7)))
    books.add(book, "A", "Z")
    newest_first = ["Z", "A", "C06", "C05", "C04", "C03", "C02", "C01", "C00"]
    pages = [list_codes(books, book, page=page, limit=4) for page in range(4)]
    assert [codes_of(page) for page in pages] == [newest_first[:4], newest_first[4:8], newest_first[8:], []]
    assert {page["totalCount"] for page in pages} == {9}
    assert codes_of(list_codes(books, book, order="code")) == sorted(newest_first)
    assert codes_of(list_codes(books, book, order="code,desc", limit=2, page=1)) == sorted(newest_first)[::-1][2:4]
    assert codes_of(list_codes(books, book, order="couponId")) == newest_first[::-1]
    for column in ("totalAssigned", "totalUsages", "expiredAt", "createdAt", "updatedAt"):
        # Codes with equal values are in the order of their ids, in the same direction.
        assert codes_of(list_codes(books, book, order=f"{column},desc")) == newest_first
    problem = books.surface.get(f"{books.path(book)}/coupons", order="position", expect=400)
    assert problem["errors"][0]["parameter"] == "order"


def test_existing_and_repeated_codes_are_refused(books):
    book = books.make("A", "B")
    problem = books.add(book, "C", "B", "A", expect=409)
    assert problem["type"] == "/problems/coupon-code-taken"
    assert "code B." in problem["detail"]
    problem = books.add(book, "C", "D", "C", expect=409)
    assert problem["type"] == "/problems/coupon-code-taken"
    assert "code C" in problem["detail"]
    assert codes_of(list_codes(books, book)) == ["B", "A"]
    # Upper and lower case differ, and another book may have the same code.
    assert books.add(book, "a")[0]["code"] == "a"
    assert books.add(books.make(), "A")[0]["code"] == "A"


def test_a_book_of_type_single_accepts_one_code(books):
    book = books.make(type="single")
    assert books.add(book, "A", "B", expect=409)["type"] == "/problems/coupon-codes-not-accepted"
    books.add(book, "A")
    for code in ("A", "B"):
        assert books.add(book, code, expect=409)["type"] == "/problems/coupon-codes-not-accepted"
    assert codes_of(list_codes(books, book)) == ["A"]


# A codeless book has one coupon, without a code.
@pytest.mark.parametrize(("book_type", "codes"), [("generated", []), ("codeless", [None])])
def test_generated_and_codeless_books_accept_no_codes(books, book_type, codes):
    book = books.make(type=book_type)
    assert books.add(book, "A", expect=409)["type"] == "/problems/coupon-codes-not-accepted"
    assert codes_of(list_codes(books, book)) == codes


@pytest.mark.parametrize(
    ("codes", "pointer"),
    [
        *((codes, "/codes") for codes in ([], "A", None)),
        *(([code], "/codes/0") for code in ("", " A", "A ", "A\tB", "A  B", "x" * 256, 1)),
    ],
)
def test_malformed_codes_are_refused(books, codes, pointer):
    problem = books.surface.post(f"{books.path(books.make())}/coupons", {"codes": codes}, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == [pointer]


def test_a_coupon_can_be_read_and_given_another_code(administration):
    book = administration.make("A", "B")
    [other_coupon, coupon] = list_codes(administration, book)["results"]
    path = f"{administration.path(book)}/coupons/{coupon['couponId']}"
    assert administration.surface.get(path) == {"couponCode": coupon}
    assert administration.surface.patch(path, {"code": "C"}) == {"couponBook": book}
    updated_coupon = administration.surface.get(path)["couponCode"]
    assert updated_coupon == {**coupon, "code": "C", "updatedAt": updated_coupon["updatedAt"]}
    assert administration.surface.patch(path, {"code": "C"}) == {"couponBook": book}
    problem = administration.surface.patch(path, {"code": other_coupon["code"]}, expect=409)
    assert problem["type"] == "/problems/coupon-code-taken"
    administration.set_status(book, "archived")
    assert administration.surface.patch(path, {"code": "D"}, expect=409)["type"] == "/problems/coupon-book-archived"


def test_the_coupon_of_a_codeless_book_cannot_get_a_code(administration):
    book = administration.make(type="codeless")
    [coupon] = list_codes(administration, book)["results"]
    path = f"{administration.path(book)}/coupons/{coupon['couponId']}"
    problem = administration.surface.patch(path, {"code": "A"}, expect=409)
    assert problem["type"] == "/problems/coupon-codes-not-accepted"


def test_a_coupon_of_another_book_is_not_found(administration):
    book, other_book = administration.make("A"), administration.make("A")
    [coupon] = list_codes(administration, other_book)["results"]
    path = f"{administration.path(book)}/coupons/{coupon['couponId']}"
    assert administration.surface.get(path, expect=404)["type"] == "/problems/not-found"


@pytest.mark.slow
def test_a_hundred_thousand_codes_are_added_in_one_call(administration, organization):
    book = administration.make()
    codes = [f"{n:06}" for n in range(100_000)]
    surface: Surface = organization.integration
    coupons = surface.post(f"/coupon-books/{book['couponBookKey']}/coupons", {"codes": codes})["codes"]
    assert [coupon["code"] for coupon in coupons] == codes
    # The last page of 25 has the oldest codes. Pages begin with 0.
    page = list_codes(administration, book, page=100_000 // 25 - 1)
    assert (page["totalCount"], codes_of(page)) == (100_000, codes[:25][::-1])
    assert administration.add(book, codes[70_000], expect=409)["type"] == "/problems/coupon-code-taken"
