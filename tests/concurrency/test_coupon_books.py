"""Coupon books that many calls change at the same time."""

from __future__ import annotations

from functools import partial

from tests.builders.coupons import CouponBooks
from tests.concurrency.simultaneous import run_simultaneously


def test_codes_that_are_added_at_the_same_time_are_stored_once_each(shop):
    books = CouponBooks(shop.organization)
    book = books.make()
    path = f"{books.path(book)}/coupons"
    # Two of the eight calls send the same 50 codes.
    offers = [[f"{n % 4}-{m}" for m in range(50)] for n in range(8)]
    replies = run_simultaneously(partial(books.surface.request, "POST", path, {"codes": codes}) for codes in offers)
    assert sorted(reply.status for reply in replies) == [201] * 4 + [409] * 4
    assert {reply.json["type"] for reply in replies if reply.status == 409} == {"/problems/coupon-code-taken"}
    pages = [books.surface.get(path, page=page) for page in range(8)]
    codes = [coupon["code"] for page in pages for coupon in page["results"]]
    assert pages[0]["totalCount"] == 4 * 50
    assert sorted(codes) == sorted({code for codes in offers for code in codes})


def test_only_one_of_many_calls_adds_the_code_of_a_single_book(shop):
    books = CouponBooks(shop.organization)
    book = books.make(type="single")
    path = f"{books.path(book)}/coupons"
    replies = run_simultaneously(partial(books.surface.request, "POST", path, {"codes": [f"C{n}"]}) for n in range(6))
    assert sorted(reply.status for reply in replies) == [201] + [409] * 5
    assert books.surface.get(path)["totalCount"] == 1


def test_no_call_changes_a_book_after_it_was_archived(shop):
    books = CouponBooks(shop.organization)
    book = books.make()
    change = partial(books.surface.request, "PATCH", books.path(book))
    status = partial(books.surface.request, "PUT", f"{books.path(book)}/status")
    calls = [partial(change, {"name": f"N{n}"}) for n in range(4)]
    calls += [
        partial(status, {"publishingStatus": new_status})
        for new_status in ("archived", "draft", "archived", "disabled")
    ]
    replies = run_simultaneously(calls)
    assert {reply.status for reply in replies} <= {200, 409}
    changed_books = [reply.json["couponBook"] for reply in replies if reply.status == 200]
    # Only one call archived the book, and its response is the final state.
    [archived_book] = [changed_book for changed_book in changed_books if changed_book["publishingStatus"] == "archived"]
    assert books.get(book) == archived_book
