"""Lists of coupons of all books over HTTP, and the campaigns that refer to books."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from tests.builders.campaigns import effect
from tests.builders.coupons import CouponBooks, new_key
from tests.builders.tracking import GENERIC, Shop, event, running


@pytest.fixture
def books(organization):
    return CouponBooks(organization)


@pytest.fixture
def shop(organization):
    return Shop(organization)


def assign_effect(book, **params):
    """An effect that assigns a coupon of the book."""
    return effect("assign-coupon", couponBookKey=book["couponBookKey"], **params)


EXPIRE = """
UPDATE coupons SET expired_at = :at WHERE organization_id = :id AND code = :code
"""
EXPIRE_FOR_MEMBERS = """
UPDATE coupon_lots AS held SET expired_at = :at FROM coupons AS coupon
WHERE coupon.organization_id = :id AND coupon.code = :code
    AND held.organization_id = coupon.organization_id AND held.coupon_id = coupon.coupon_id
"""


def expire(shop, code, at, *, statement=EXPIRE):
    """Let a coupon expire, or its assignments to members."""
    with shop.engine.begin() as db:
        assert db.execute(text(statement), {"at": at, "id": shop.organization.id, "code": code}).rowcount == 1


def codes_of(page):
    """The codes on a page of a list."""
    assert page["totalCount"] >= len(page["results"])
    return [coupon["code"] for coupon in page["results"]]


def test_coupons_of_all_books_are_listed_newest_first(books):
    older_book, newer_book = books.make("A", "B", type="list"), books.make("A", "C", type="list")
    books.make(type="codeless")
    page = books.surface.get("/coupons")
    assert codes_of(page) == [None, "C", "A", "B", "A"]
    assert (page["totalCount"], page["page"], page["limit"]) == (5, 0, 25)
    assert codes_of(books.surface.get("/coupons", limit=2, page=1)) == ["A", "B"]
    page_after_the_last = books.surface.get("/coupons", limit=2, page=9)
    assert page_after_the_last == {"totalCount": 5, "page": 9, "limit": 2, "nextCursor": None, "results": []}
    assert codes_of(books.surface.get("/coupons", order="code,desc", limit=2)) == ["C", "B"]
    coupons_with_code = books.surface.get("/coupons", code="A")["results"]
    assert [coupon["couponBookId"] for coupon in coupons_with_code] == [
        newer_book["couponBookId"],
        older_book["couponBookId"],
    ]
    assert codes_of(books.surface.get("/coupons", couponBookKey=older_book["couponBookKey"])) == ["B", "A"]
    page = books.surface.get("/coupons", couponBookKey=older_book["couponBookKey"].upper(), code="A")
    assert page["results"] == coupons_with_code[1:]
    assert codes_of(books.surface.get("/coupons", code="a")) == []


def test_lists_of_unknown_books_and_members_are_empty(books):
    books.make("A")
    for query in ({"couponBookKey": new_key()}, {"loyaltyMemberId": "nobody"}):
        page = books.surface.get("/coupons", **query)
        assert page == {"totalCount": 0, "page": 0, "limit": 25, "nextCursor": None, "results": []}


def test_coupons_can_be_filtered_by_expiry(books, shop):
    books.make("past", "future", "never")
    now = datetime.now(UTC)
    expire(shop, "past", now - timedelta(seconds=1))
    expire(shop, "future", now + timedelta(days=1))
    for query, expected_codes in (({"expired": True}, ["past"]), ({"expired": False}, ["never", "future"])):
        page = books.surface.get("/coupons", **query)
        assert (page["totalCount"], codes_of(page)) == (len(expected_codes), expected_codes)
        # Pages are counted from 0.
        assert codes_of(books.surface.get("/coupons", **query, page=1, limit=1)) == expected_codes[1:]


def test_coupons_can_be_filtered_by_member(books, shop):
    book, other_book = books.make("A", "B", "C"), books.make("X", "Y")
    # An event of a member assigns the next code of each book.
    shop.campaign(running(assign_effect(book), assign_effect(other_book)), eventType=GENERIC)
    ana, bob = shop.member(), shop.member()
    shop.track_one(event(ana))
    result = shop.track_one(event(bob))
    assert codes_of(books.surface.get("/coupons", loyaltyMemberId=ana)) == ["X", "A"]
    assert codes_of(books.surface.get("/coupons", loyaltyMemberId=bob)) == ["Y", "B"]
    page = books.surface.get("/coupons", loyaltyMemberId=bob, couponBookKey=book["couponBookKey"])
    assert codes_of(page) == ["B"]
    assert page["results"][0]["totalAssigned"] == 1
    assert codes_of(books.surface.get("/coupons", loyaltyMemberId=ana, code="B")) == []
    expire(shop, "A", datetime.now(UTC), statement=EXPIRE_FOR_MEMBERS)
    assert codes_of(books.surface.get("/coupons", loyaltyMemberId=ana, expired=True)) == ["A"]
    assert codes_of(books.surface.get("/coupons", loyaltyMemberId=ana, expired=False)) == ["X"]
    shop.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)
    assert codes_of(books.surface.get("/coupons", loyaltyMemberId=bob)) == []


def test_actions_that_assign_coupons_of_a_book_are_among_its_references(books, shop):
    book, other_book = books.make(), books.make()
    key = book["couponBookKey"]
    campaign_with_key = shop.campaign(
        running(assign_effect(book), assign_effect(other_book)), running(assign_effect(other_book))
    )
    expression = f"event.externalId == 'x' ? '{key.upper()}' : '{other_book['couponBookKey']}'"
    draft = {**running(effect("assign-coupon", couponBookKey=("=", expression))), "status": "draft"}
    campaign_with_expression = shop.campaign(draft, running(assign_effect(other_book)))
    # An action that only uses coupons is no reference.
    shop.campaign(running(effect("use-coupon", couponBookKey=key)))
    response = books.surface.get(f"{books.path(book)}/references")
    assert response == {
        "isReferenced": True,
        "references": {
            "campaigns": [
                {
                    "campaignId": campaign["campaignId"],
                    "campaignKey": campaign["campaignKey"],
                    "actionId": campaign["actions"][0]["actionId"],
                }
                for campaign in (campaign_with_key, campaign_with_expression)
            ],
            "documents": [],
        },
    }
