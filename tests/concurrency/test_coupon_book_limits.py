"""The coupon books of one organization, created by many calls at the same time."""

from __future__ import annotations

from functools import partial

from handlers.services.coupons import limit_books
from tests.builders.coupons import REQUIRED_FIELDS
from tests.concurrency.conftest import THREADS
from tests.concurrency.simultaneous import run_simultaneously, statuses


def test_simultaneous_calls_create_the_maximum_of_coupon_books(shop, monkeypatch):
    monkeypatch.setattr(limit_books, "MAX_BOOKS", 3)
    create = partial(shop.integration.request, "POST", "/coupon-books", REQUIRED_FIELDS)
    replies = run_simultaneously([create] * THREADS)
    assert statuses(replies) == {(201, None): 3, (409, "/problems/coupon-book-limit"): THREADS - 3}
    assert shop.integration.get("/coupon-books")["totalCount"] == 3
