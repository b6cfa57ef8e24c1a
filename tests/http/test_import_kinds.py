"""Imports of codes, coupons, badges, lists of audiences and events, over HTTP."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from domain.events import NOT_EVALUATED
from domain.imports.records import ROLE_OF_KIND
from handlers.services.imports import audience_members
from tests.builders.campaigns import mint
from tests.builders.coupons import CouponBooks
from tests.builders.imports import Imports, status_read_done_failed
from tests.builders.missions import create
from tests.builders.statements import count
from tests.builders.tracking import ORDER_CREATED, Shop, running
from tests.builders.triggers import add_trigger


@pytest.fixture
def imports(organization):
    return Imports(organization)


@pytest.fixture
def shop(organization):
    new_shop = Shop(organization)
    for name in ("ana", "ben"):
        new_shop.member(loyaltyMemberId=name)
    return new_shop


def lines(*rows):
    """The rows as a file of JSON lines."""
    return "\n".join(json.dumps(row) for row in rows)


def book(shop, name="Flat white", book_type="list", **more):
    """A new coupon book."""
    return CouponBooks(shop.organization).make(name=name, type=book_type, **more)


def price_settings(shop):
    """Settings of a book whose assignments cost 50 points."""
    path = f"/ledgers/{shop.organization.defaults.ledger_id}/accounts"
    [account] = shop.administration.get(path)["results"]
    config = {"ledgerAccountKey": account["ledgerAccountKey"]}
    return {"assignmentRequiredPoints": 50, "requiredPointsConfig": config}


def codes(shop, coupon_book):
    """The codes of a book, in the order in which they were added."""
    page = shop.administration.get(f"/coupon-books/{coupon_book['couponBookId']}/coupons", order="couponId,asc")
    return [coupon["code"] for coupon in page["results"]]


def coupons(shop, member):
    """The coupons of a member, sorted: code and assigned amount."""
    member_coupons = shop.integration.get(f"/members/{member}/coupons")["results"]
    return sorted((coupon["code"] or "", coupon["amountAssigned"]) for coupon in member_coupons)


def test_codes_are_added_to_their_books(imports, shop):
    flat_white, croissant = book(shop, "Flat white"), book(shop, "Croissant", "single")
    book(shop, "Twice")
    book(shop, "Twice")
    rows = [
        f"{flat_white['couponBookKey']},A-1",
        "Flat white,A-2",
        "Flat white,A-1",
        "Croissant,ONE",
        "Croissant,TWO",
        "Tea,A",
        "Twice,A",
        "Flat white, ",
        "Flat white,a  b",
    ]
    job = imports.run("couponBook,code\n" + "\n".join(rows), kind="coupon-codes")
    assert (codes(shop, flat_white), codes(shop, croissant)) == (["A-1", "A-2"], ["ONE"])
    reason_of_blanks = "codes[0] begins or ends with a blank, or contains blanks other than single spaces."
    assert imports.errors(job) == [
        (4, "code", "The coupon book already has the code A-1."),
        (6, "code", "A book of the type single has only one code; it already has one, or several were sent."),
        (7, "couponBook", "There is no coupon book Tea."),
        (8, "couponBook", "Several coupon books are called Twice; use the key instead of the name."),
        (9, "code", reason_of_blanks),
        (10, "code", reason_of_blanks),
    ]
    second_job = imports.run("couponBook,code\nFlat white,A-2\nFlat white,A-3\n", kind="coupon-codes", mode="upsert")
    assert status_read_done_failed(second_job) == ("done", 2, 2, 0)
    assert codes(shop, flat_white) == ["A-1", "A-2", "A-3"]
    CouponBooks(shop.organization).set_status(flat_white, "archived")
    job = imports.run("couponBook,code\nFlat white,A-4\n", kind="coupon-codes")
    assert status_read_done_failed(job) == ("done", 1, 0, 1)
    assert imports.errors(job) == [(2, "code", "The coupon book Flat white is archived.")]


def test_imported_coupons_cost_no_points_and_cause_no_events(imports, shop):
    coupon_book = book(shop, **price_settings(shop))
    add_trigger(shop.administration)
    imports.run("couponBook,code\nFlat white,A-1\nFlat white,A-2\nFlat white,A-3\n", kind="coupon-codes")
    shop.campaign(running(mint(5)), eventType="coupon-code-assigned")
    until = (datetime.now(UTC) + timedelta(days=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    rows = [
        {"loyaltyMemberId": "ana", "couponBook": "Flat white", "code": "A-2", "amount": 3, "expiresAt": until},
        {"loyaltyMemberId": "ben", "couponBook": coupon_book["couponBookKey"], "customAttributes": {"from": "old"}},
        {"loyaltyMemberId": "eva", "couponBook": "Flat white"},
        {"loyaltyMemberId": "ana", "couponBook": "Flat white", "code": "B-9"},
        {"loyaltyMemberId": "ana", "couponBook": "Flat white", "expiresAt": "2020-01-01"},
        {"loyaltyMemberId": "ana", "couponBook": "Flat white", "amount": 0},
        {"loyaltyMemberId": "ana", "couponBook": "Flat white", "amount": 1.5},
        {"loyaltyMemberId": "ben", "couponBook": "Flat white", "code": "A-2"},
    ]
    job = imports.run(lines(*rows), kind="coupons", file_format="ndjson")
    assert status_read_done_failed(job) == ("done", 8, 2, 6), imports.errors(job)
    assert [(line, column) for line, column, _ in imports.errors(job)] == [
        (3, "loyaltyMemberId"),
        (4, None),
        (5, "expiresAt"),
        (6, "amount"),
        (7, "amount"),
        (8, None),
    ]
    assert coupons(shop, "ana") == [("A-2", 3)]
    # A row without a code assigns the first free one.
    assert coupons(shop, "ben") == [("A-1", 1)]
    assert [usage.custom_attributes for usage in shop.rows("coupon_usages", order="coupon_usage_id")][-1] == {
        "from": "old"
    }
    assert (shop.balance("ana"), shop.events("ana"), shop.rows("trigger_deliveries")) == (0, [], [])


def test_imported_coupons_with_events_cost_points_like_requests(imports, shop):
    book(shop, book_type="codeless", **price_settings(shop))
    shop.campaign(running(mint(5)), eventType="coupon-code-assigned")
    rows = "loyaltyMemberId,couponBook,pointsOverride\nana,Flat white,\nana,Flat white,2\n"
    job = imports.run(rows, kind="coupons", emitEvents=True)
    assert status_read_done_failed(job) == ("done", 2, 2, 0), imports.errors(job)
    # Without a price in its row, the first coupon costs nothing; each gives 5 points, and the second costs 2.
    assert shop.balance("ana") == 2 * 5 - 2
    assert {loyalty_event["eventType"] for loyalty_event in shop.events("ana")} == {"coupon-code-assigned"}
    shop.check_ledger()


@pytest.mark.parametrize("kind", ["coupons", "badges", "events"])
def test_rows_with_the_same_key_are_imported_once(imports, shop, kind):
    book(shop, book_type="codeless")
    shop.integration.post("/badges", {"name": "Regular", "maxAmount": 10, "active": True})
    # The columns of the kind, and the content of a row, of one with the same key, and of one that differs.
    columns, content, other_content = {
        "coupons": ("couponBook,amount", "Flat white,1", "Flat white,2"),
        "badges": ("badge,amount", "Regular,1", "Regular,2"),
        "events": ("eventType,description", "member-generic-event,a", "member-generic-event,b"),
    }[kind]
    header = f"loyaltyMemberId,{columns},systemUniqueKey\n"
    rows = f"ana,{content},k-1\nana,{content},k-1\nana,{other_content},k-1\n"
    job = imports.run(header + rows, kind=kind)
    assert status_read_done_failed(job) == ("done", 3, 1, 2)
    assert {(column, reason) for _, column, reason in imports.errors(job)} == {
        ("systemUniqueKey", "The systemUniqueKey k-1 was used before.")
    }
    # In the mode upsert, a repeated row is no fault; a row that differs is.
    job = imports.run(header + rows, kind=kind, mode="upsert")
    assert status_read_done_failed(job) == ("done", 3, 2, 1)
    [(line, column, reason)] = imports.errors(job)
    assert (line, column) == (4, "systemUniqueKey")
    assert "k-1 was used for another request" in reason
    table = {"coupons": "coupon_usages", "badges": "badge_trackings", "events": "events"}[kind]
    assert [row.system_unique_key for row in shop.rows(table)].count("k-1") == 1


def test_members_get_the_imported_badges(imports, shop):
    badge = shop.integration.post("/badges", {"name": "Regular", "maxAmount": 3, "active": True})["badge"]
    shop.campaign(running(mint(5)), eventType="badge-assigned")
    rows = f"ana,Regular,2\nana,{badge['badgeKey']},1\nana,Regular,1\nben,Tea,1\neva,Regular,1\nben,Regular,x\n"
    job = imports.run("loyaltyMemberId,badge,amount\n" + rows, kind="badges")
    assert status_read_done_failed(job) == ("done", 6, 2, 4)
    assert [(line, column) for line, column, _ in imports.errors(job)] == [
        (4, None),
        (5, "badge"),
        (6, "loyaltyMemberId"),
        (7, "amount"),
    ]
    [member_badge] = shop.integration.get("/members/ana/badges")["results"]
    assert member_badge["assignedBalance"] == 2 + 1
    assert (shop.balance("ana"), shop.events("ana")) == (0, [])
    # Only this import causes events, for which the campaign mints points.
    imports.run("loyaltyMemberId,badge\nben,Regular\n", kind="badges", emitEvents=True)
    assert shop.balance("ben") == 5


def test_rows_add_members_to_audiences_and_remove_members(imports, shop):
    response = shop.administration.post(
        "/audiences", {"name": "Testers", "active": True, "matcherType": "list-matcher"}
    )
    audience = response["audience"]
    shop.administration.post("/audiences", {"name": "All", "active": True, "matcherType": "null-matcher"})
    header = "audience,loyaltyMemberId,remove\n"
    rows = f"Testers,ana,\n{audience['audienceKey']},ben,\nTesters,eva,\nAll,ana,\nTea,ana,\n"
    job = imports.run(header + rows, kind="audience-members")
    assert status_read_done_failed(job) == ("done", 5, 2, 3)
    assert [(line, column) for line, column, _ in imports.errors(job)] == [
        (4, "loyaltyMemberId"),
        (5, "audience"),
        (6, "audience"),
    ]
    path = f"/audiences/{audience['audienceId']}"
    assert shop.administration.get(path)["audience"]["memberCount"] == 2
    imports.run(f"{header}Testers,ana,true\nTesters,ben,true\nTesters,ben,no\n", kind="audience-members")
    assert shop.administration.get(path)["audience"]["memberCount"] == 1
    assert len(shop.rows("audience_members")) == 1


def test_members_cannot_be_erased_while_an_import_adds_them_to_an_audience(imports, shop, monkeypatch):
    shop.administration.post("/audiences", {"name": "Testers", "active": True, "matcherType": "list-matcher"})
    lock = text("SELECT member_id FROM members WHERE organization_id = :o FOR UPDATE SKIP LOCKED")
    change_lists, lockable_ids = audience_members.change_lists, []

    def change_while_erasing(call, changes):
        # As erasing does it, but without waiting for locked members.
        with shop.engine.begin() as db:
            lockable_ids.extend(db.execute(lock, {"o": shop.organization.id}).scalars())
        return change_lists(call, changes)

    monkeypatch.setattr(audience_members, "change_lists", change_while_erasing)
    job = imports.run("audience,loyaltyMemberId\nTesters,ana\n", kind="audience-members")
    assert status_read_done_failed(job) == ("done", 1, 1, 0)
    assert lockable_ids == [shop.integration.get("/members/ben")["loyaltyMember"]["memberId"]]


def test_imported_events_are_captured_unless_the_import_requests_their_evaluation(imports, shop):
    shop.campaign(running(mint(5)), eventType=ORDER_CREATED)
    add_trigger(shop.administration)

    def order_row(member, external_id, **more):
        order = {"externalId": external_id, "total": 12.5}
        return {"loyaltyMemberId": member, "eventType": ORDER_CREATED, "payload": {"order": order}, **more}

    rows = [
        order_row("ana", "order-1", externalEventDate="2025-03-02", systemUniqueKey="till-1", tags=["old"]),
        # There is no member eva; the order of ana is in the first row already.
        order_row("eva", "order-2"),
        order_row("ana", "order-1"),
        {"loyaltyMemberId": "ana", "eventType": "tea"},
        {"loyaltyMemberId": "ana", "eventType": ORDER_CREATED},
        order_row("ana", "order-3", externalEventDate="2999-01-01"),
        {"loyaltyMemberId": "ana", "eventType": ORDER_CREATED, "payload": {"order": {"total": 1}}},
    ]
    job = imports.run(lines(*rows), kind="events", file_format="ndjson")
    assert status_read_done_failed(job) == ("done", 7, 1, 6), imports.errors(job)
    assert [(line, column) for line, column, _ in imports.errors(job)] == [
        (2, "loyaltyMemberId"),
        (3, None),
        (4, None),
        (5, None),
        (6, "externalEventDate"),
        (7, "payload"),
    ]
    captured_event = next(loyalty_event for loyalty_event in shop.events("ana") if loyalty_event["status"] == "success")
    assert captured_event["systemUniqueKey"] == "till-1"
    assert captured_event["externalEventDate"] == "2025-03-02T00:00:00Z"
    assert captured_event["evaluationStatus"] == NOT_EVALUATED
    assert (shop.balance("ana"), shop.rows("trigger_deliveries")) == (0, [])
    shop.administration.post(f"/events/{captured_event['loyaltyEventKey']}/evaluate", expect=200)
    assert shop.balance("ana") == 5
    job = imports.run(lines(order_row("ben", "order-4")), kind="events", file_format="ndjson", emitEvents=True)
    assert status_read_done_failed(job) == ("done", 1, 1, 0)
    assert shop.balance("ben") == 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(set(ROLE_OF_KIND) - {"members", "balances"}))
def test_the_number_of_statements_does_not_depend_on_the_number_of_rows(imports, shop, kind):
    book(shop, book_type="list" if kind == "coupon-codes" else "codeless")
    shop.integration.post("/badges", {"name": "Regular", "maxAmount": 1000, "active": True})
    shop.administration.post("/audiences", {"name": "Testers", "active": True, "matcherType": "list-matcher"})
    create(shop, name="Coffees", goalCount=10)
    for number in range(60):
        shop.member(loyaltyMemberId=f"m{number}")
    # The columns, and the row of a number in a file of a size.
    header, row_template = {
        "coupon-codes": ("couponBook,code", "Flat white,{size}-{number}"),
        "coupons": ("loyaltyMemberId,couponBook", "m{number},Flat white"),
        "badges": ("loyaltyMemberId,badge", "m{number},Regular"),
        "audience-members": ("loyaltyMemberId,audience", "m{number},Testers"),
        "events": ("loyaltyMemberId,eventType", "m{number},member-generic-event"),
        "mission-progress": ("loyaltyMemberId,mission,timesAchieved", "m{number},Coffees,{size}"),
    }[kind]

    def count_statements(size):
        """The number of statements of the step that imports a file with this number of rows."""
        rows = [row_template.format(size=size, number=number) for number in range(size)]
        imports.queue("\n".join([header, *rows]), kind=kind)
        importer = imports.importer
        statement_count = count(shop.engine, importer.step)
        while importer.step():
            pass
        return statement_count

    # The first import fills caches.
    count_statements(10)
    count_of_20_rows = count_statements(20)
    assert count_statements(50) == count_of_20_rows
