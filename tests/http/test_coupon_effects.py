"""Coupons as effects of campaigns: assigned and used with events, reported, and reverted with them."""

from __future__ import annotations

import uuid
from decimal import Decimal

import pytest

from tests.builders.campaigns import effect, mint
from tests.builders.coupons import CouponBooks
from tests.builders.partners import PAYMENT, Partner
from tests.builders.statements import count
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, order_update, running


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def books(organization):
    return CouponBooks(organization)


def assign(book, **params):
    """An effect that assigns a coupon of the book."""
    return effect("assign-coupon", couponBookKey=book["couponBookKey"], **params)


def use(book, **params):
    """An effect that uses a coupon of the book."""
    return effect("use-coupon", couponBookKey=book["couponBookKey"], **params)


def assigned_and_used(books, book):
    """(assigned, used): the current numbers of coupons of the book."""
    stored_book = books.get(book)
    return stored_book["totalAssigned"], stored_book["totalUsages"]


def coupons(shop, member):
    """(code, assigned amount, used amount) of the member's coupons, newest first."""
    entries = shop.integration.get(f"/members/{member}/coupons")["results"]
    return [(result["code"], result["amountAssigned"], result["amountUsed"]) for result in entries]


def test_events_assign_and_use_coupons(shop, books):
    book, member = books.make("A", "B", "C", type="list"), shop.member()
    # An amount of 2.9 is rounded down to 2.
    shop.campaign(running(assign(book), assign(book, amount=2.9), use(book)), eventType=GENERIC)
    result = shop.track_one(event(member))
    assert [outcome["status"] for outcome in result["effects"]] == ["executed"] * 3
    assert coupons(shop, member) == [("B", 2, 0), ("A", 1, 1)]
    assert assigned_and_used(books, book) == (3, 1)
    usages = shop.integration.get(f"/members/{member}/coupon-usages")["results"]
    assert [(usage["amountAssigned"], usage["amountUsed"]) for usage in usages] == [(0, 1), (2, 0), (1, 0)]


def test_effects_that_the_book_refuses_are_skipped(shop, books):
    book, member = books.make(type="codeless", maxCouponCount=1), shop.member()
    shop.campaign(running(use(book), assign(book), assign(book), assign(book, amount=("=", "0"))), eventType=GENERIC)
    effects = shop.track_one(event(member))["effects"]
    assert [(outcome["status"], outcome.get("error", {}).get("type")) for outcome in effects] == [
        ("skipped", "/problems/coupon-not-assigned"),
        ("executed", None),
        ("skipped", "/problems/coupon-out-of-stock"),
        ("skipped", "/problems/zero-amount"),
    ]


@pytest.mark.parametrize(("total", "status"), [("29.99", "skipped"), ("30", "executed")])
def test_an_effect_uses_a_coupon_for_the_order_and_assigns_one_for_a_later_order(shop, books, total, status):
    book, member = books.make(type="codeless", minOrderTotal=30), shop.member()
    shop.campaign(running(assign(book), use(book)), eventType=ORDER_CREATED)
    assign_outcome, use_outcome = shop.track_one(order(member, total))["effects"]
    assert (assign_outcome["status"], use_outcome["status"]) == ("executed", status)
    assert use_outcome.get("error", {}).get("type") == ("/problems/coupon-order-total" if status == "skipped" else None)


@pytest.mark.parametrize(("total", "uses"), [("29.99", 0), ("30", 1)])
def test_an_effect_uses_a_coupon_for_the_payment_of_a_partner(shop, books, total, uses):
    book, member = books.make(type="codeless", minOrderTotal=30), shop.member()
    shop.campaign(running(assign(book), use(book)), eventType=PAYMENT)
    Partner.of(shop).pay(member, Decimal(total))
    assert assigned_and_used(books, book) == (1, uses)


def test_a_use_of_several_coupons_is_all_or_nothing(shop, books):
    book, member = books.make("U-1", "U-2", type="list"), shop.member()
    shop.campaign(running(assign(book), assign(book), use(book, amount=3), use(book, amount=2)), eventType=GENERIC)
    effects = shop.track_one(event(member))["effects"]
    assert [outcome["status"] for outcome in effects] == ["executed", "executed", "skipped", "executed"]
    assert assigned_and_used(books, book) == (2, 2)


def test_the_book_of_an_effect_must_exist(shop):
    campaign = shop.campaign(eventType=GENERIC)
    path = f"/campaigns/{campaign['campaignId']}/actions"
    for key in (str(uuid.uuid4()), "no key at all"):
        action = running(effect("assign-coupon", couponBookKey=key))
        assert shop.administration.post(path, action, expect=404)["type"] == "/problems/unknown-coupon-book"
    shop.administration.post(path, running(effect("use-coupon", couponBookKey=("=", "event.eventType"))))
    [outcome] = shop.track_one(event(shop.member()))["effects"]
    assert (outcome["status"], outcome["error"]["type"]) == ("failed", "/problems/unknown-coupon-book")


def test_a_dry_run_assigns_nothing(shop, books):
    books_of_all_types = [books.make("D", type="list"), books.make(type="generated"), books.make(type="codeless")]
    member = shop.member()
    shop.campaign(*(running(assign(book), use(book)) for book in books_of_all_types), eventType=GENERIC)
    [result] = shop.track(event(member), executionMode="dryRun")
    assert [outcome["status"] for outcome in result["effects"]] == ["evaluated"] * 6
    assert [assigned_and_used(books, book) for book in books_of_all_types] == [(0, 0)] * 3
    assert coupons(shop, member) == []


def test_assignments_and_uses_are_events_that_campaigns_evaluate(shop, books):
    list_book, codeless_book = books.make("R", type="list", tags=["cake"]), books.make(type="codeless")
    member = shop.member()
    shop.campaign(running(mint(5), rule="event.payload.couponUsage.code == 'R'"), eventType="coupon-code-assigned")
    shop.campaign(running(mint(20)), eventType="coupon-code-used")
    shop.campaign(running(mint(100)), eventType="benefit-used")
    for book in (list_book, codeless_book):
        path = f"/members/{member}/coupon-books/{book['couponBookKey']}"
        shop.integration.post(f"{path}/assign", {"description": "Tenth coffee"}, expect=200)
        shop.integration.post(f"{path}/use", {}, expect=200)
    # 5 for the assignment of R, 20 for its use, 100 for the use of the codeless coupon.
    assert shop.balance(member) == 5 + 20 + 100
    events_by_type = {loyalty_event["eventType"]: loyalty_event for loyalty_event in shop.events(member)}
    assert sorted(events_by_type) == ["benefit-used", "coupon-code-assigned", "coupon-code-used"]
    assert events_by_type["coupon-code-assigned"]["reason"] == "Tenth coffee"
    payloads = {row.event_type: row.payload for row in shop.rows("events", "event_type, payload") if row.payload}
    usage = payloads["coupon-code-used"]["couponUsage"]
    assert (usage["code"], usage["type"], usage["tags"], usage["amountUsed"]) == ("R", "list", ["cake"], 1)
    assert payloads["benefit-used"]["couponUsage"]["code"] is None


def test_cancelling_reverts_uses_and_claws_coupons_back(shop, books):
    book, member = books.make("X", "Y", type="list"), shop.member()
    # An assignment costs 3 points.
    points = {"requiredPointsConfig": {"ledgerAccountKey": default_account_key(shop)}, "assignmentRequiredPoints": 3}
    priced_book = books.make(type="codeless", **points)
    shop.give(member, 10)
    shop.campaign(running(assign(book, amount=2), assign(priced_book), use(book)), eventType=GENERIC)
    key = shop.track_one(event(member))["loyaltyEventKey"]
    assert shop.balance(member) == 10 - 3
    path = f"/members/{member}/coupon-books/{book['couponBookKey']}/use"
    shop.integration.post(path, {}, expect=200)
    results = shop.integration.post(f"/events/{key}/cancel", {}, expect=200)["results"]
    [reversals] = [result["coupons"] for result in results if result["coupons"]]
    reversed_amounts = [
        (coupon["code"], coupon["amountAssigned"], coupon["amountUsed"], coupon["missing"]) for coupon in reversals
    ]
    # The newest is first. The member's later use stays active, so one of two assigned coupons is missing.
    assert reversed_amounts == [("X", 0, 1, 0), (None, 1, 0, 0), ("X", 1, 0, 1)]
    assert coupons(shop, member) == [("X", 1, 1)]
    assert assigned_and_used(books, book) == (1, 1)
    assert assigned_and_used(books, priced_book) == (0, 0)
    assert shop.balance(member) == 10
    shop.check_ledger()


def default_account_key(shop):
    """The key of the account in which books take points."""
    ledger = shop.organization.defaults.ledger_id
    return shop.administration.get(f"/ledgers/{ledger}/accounts")["results"][0]["ledgerAccountKey"]


def test_the_return_of_an_order_claws_its_coupons_back(shop, books):
    book, member = books.make("O", type="list"), shop.member()
    shop.campaign(running(assign(book)), eventType="member-purchase-order-created")
    shop.track_one(order(member, external_id="one"))
    assert assigned_and_used(books, book) == (1, 0)
    shop.track_one(order_update(member, "one", "confirmed"))
    result = shop.track_one(order_update(member, "one", "returned"))
    assert [coupon["code"] for reversed_event in result["reverted"] for coupon in reversed_event["coupons"]] == ["O"]
    assert assigned_and_used(books, book) == (0, 0)
    assert coupons(shop, member) == []


@pytest.mark.parametrize("restores", [True, False])
@pytest.mark.parametrize("way", ["cancelEvent", "cancelled", "returned"])
def test_a_use_stays_active_when_its_order_is_undone_unless_the_book_restores_it(shop, books, way, restores):
    """Points that an active use cost stay spent; points that campaigns gave for the use are reverted in any case."""
    member = shop.member()
    shop.give(member, 10)
    price_settings = {"requiredPointsConfig": {"ledgerAccountKey": default_account_key(shop)}, "usageRequiredPoints": 3}
    book = books.make("O", type="list", restoreOnCancel=restores, **price_settings)
    assert book["restoreOnCancel"] is restores
    shop.campaign(running(assign(book), use(book), mint(20)), eventType=ORDER_CREATED)
    shop.campaign(running(mint(100)), eventType="coupon-code-used")
    key = shop.track_one(order(member, external_id="one"))["loyaltyEventKey"]
    assert (shop.balance(member), assigned_and_used(books, book)) == (10 - 3 + 20 + 100, (1, 1))
    if way == "cancelEvent":
        results = shop.integration.post(f"/events/{key}/cancel", {}, expect=200)["results"]
    else:
        if way == "returned":
            shop.track_one(order_update(member, "one", "confirmed"))
        results = shop.track_one(order_update(member, "one", way))["reverted"]
    reversed_amounts = [
        (coupon["amountAssigned"], coupon["amountUsed"], coupon["missing"])
        for result in results
        for coupon in result["coupons"]
    ]
    # If the use stays, the assignment stays too, because all of it is used.
    assert reversed_amounts == ([(0, 1, 0), (1, 0, 0)] if restores else [(0, 0, 1)])
    assert (shop.balance(member), assigned_and_used(books, book)) == ((10, (0, 0)) if restores else (10 - 3, (1, 1)))
    shop.check_ledger()
    if not restores:
        usages = shop.integration.get(f"/members/{member}/coupon-usages")["results"]
        usage_key = next(usage["couponUsageKey"] for usage in usages if usage["amountUsed"])
        shop.integration.post(f"/members/{member}/coupon-usages/{usage_key}/revert", expect=200)
        assert (shop.balance(member), assigned_and_used(books, book)) == (10, (0, 0))
        shop.check_ledger()


@pytest.mark.parametrize("book_type", ["list", "generated", "codeless"])
def test_the_number_of_statements_hardly_depends_on_the_size_of_a_batch(shop, books, book_type):
    codes = [f"N-{n}" for n in range(300)] if book_type == "list" else []
    book = books.make(*codes, type=book_type)
    members = [shop.member() for _ in range(10)]
    shop.campaign(running(assign(book), use(book)), eventType=GENERIC)

    def count_statements(size):
        """Track this number of events in one call; return the number of statements."""

        def call():
            results = shop.track(*(event(members[n % 10]) for n in range(size)))
            assert {outcome["status"] for result in results for outcome in result["effects"]} == {"executed"}

        return count(shop.engine, call)

    # The first call also fills caches.
    shop.track(event(members[0]))
    statements_of_10, statements_of_100 = count_statements(10), count_statements(100)
    # Ids and codes are fetched in doubling numbers, because their total is not known in advance.
    assert statements_of_100 - statements_of_10 <= 12


def test_a_code_that_an_event_takes_back_can_be_assigned_by_the_next_event_of_its_request(shop, books):
    book, ana, ben = books.make("F-1", type="list"), shop.member(), shop.member()
    shop.campaign(running(assign(book)), eventType=ORDER_CREATED)
    shop.track_one(order(ben, external_id="o"))
    [_, result] = shop.track(order_update(ben, "o", "cancelled"), order(ana))
    assert [outcome["status"] for outcome in result["effects"]] == ["executed"]
    assert coupons(shop, ana) == [("F-1", 1, 0)]
    assert assigned_and_used(books, book) == (1, 0)
