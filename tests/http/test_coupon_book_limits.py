"""The limits of an organization's coupon books: their number, and the bytes of their rules."""

from __future__ import annotations

import pytest

from handlers.services.coupons import limit_books
from persistence import transactions
from persistence.coupons.books import size_of_terms
from tests.builders.coupons import CouponBooks


@pytest.fixture(params=["integration", "administration"])
def books(request, organization):
    return CouponBooks(organization, request.param)


def count_and_bytes(books):
    """The number of the organization's books that are not archived, and the bytes of their terms."""
    organization = books.organization
    return transactions.run(organization.api.engine, lambda db: size_of_terms(db, organization.id))


def condition_of(length):
    """A condition whose expression has this length."""
    return {"expression": f"'{'a' * (length - 8)}' != ''"}


def test_an_organization_has_a_maximum_of_books_that_are_not_archived(books, monkeypatch):
    monkeypatch.setattr(limit_books, "MAX_BOOKS", 2)
    first_book = books.make()
    books.make(publishingStatus="draft")
    assert books.expect_refusal(expect=409) == "/problems/coupon-book-limit"
    assert count_and_bytes(books)[0] == 2
    # The maximum does not keep the books from changes, and an archived book no longer counts.
    books.change(first_book, name="Latte")
    books.set_status(first_book, "archived")
    books.make()
    assert count_and_bytes(books)[0] == 2


def test_the_rules_of_the_books_of_an_organization_have_a_maximum_of_bytes(books, monkeypatch):
    book = books.make(condition=condition_of(30))
    _, bytes_of_first = count_and_bytes(books)
    monkeypatch.setattr(limit_books, "MAX_TERMS_BYTES", bytes_of_first + 10)
    assert books.expect_refusal(expect=409) == "/problems/coupon-book-limit"
    problem = books.change(book, condition=condition_of(41), expect=409)
    assert problem["type"] == "/problems/coupon-book-limit"
    assert f"would have {bytes_of_first + 11:,} bytes" in problem["detail"]
    books.change(book, condition=condition_of(40))
    # What only describes a book does not count.
    books.change(book, description="A" * 2_000, customAttributes={"menu": "A" * 2_000})
    assert count_and_bytes(books) == (1, bytes_of_first + 10)


def test_books_that_exceed_a_limit_can_become_smaller(books, monkeypatch):
    book = books.make(condition=condition_of(30))
    books.make()
    monkeypatch.setattr(limit_books, "MAX_BOOKS", 1)
    monkeypatch.setattr(limit_books, "MAX_TERMS_BYTES", 1)
    books.change(book, condition=condition_of(29))
    assert books.change(book, condition=condition_of(30), expect=409)["type"] == "/problems/coupon-book-limit"
