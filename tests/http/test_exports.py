"""Exports: rows that imports accept, so that exported records are the same after an import."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

import pytest

from domain.exports import (
    ABANDONED_AFTER,
    FILTERS,
    FILTERS_OF_KIND,
    MAX_UNFINISHED_EXPORTS,
    ROLE_OF_KIND,
    ROWS_KEPT_FOR,
)
from domain.ledger.records import PENDING, REVERTED, SETTLED
from handlers.services.exports import manage, write
from handlers.services.exports import rows as export_rows
from handlers.services.exports.rows import ROWS, csv_header, csv_row
from handlers.services.exports.write import ExportWriter
from persistence import exports, organizations, transactions
from persistence.connections import PipeliningCursor
from persistence.exported_rows import ROWS_IN_MEMORY, ExportRange
from persistence.exports import EXPORTS
from tests.builders.api import running_api
from tests.builders.campaigns import mint
from tests.builders.coupons import CouponBooks
from tests.builders.exports import exported_lines
from tests.builders.imports import Imports, status_read_done_failed
from tests.builders.missions import create
from tests.builders.points import Points
from tests.builders.statements import count
from tests.builders.test_clocks import Clock
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, order_update, running

PROFILE = {
    "name": "=Ana",
    "lastName": 'Costa, "the first"',
    "emails": ["ana@example.com"],
    "phoneNumber": "+54 11",
    "tags": ["barista", "taster"],
    "govId": {"id": "30111222", "type": "national-id"},
    "address": {"zipCode": "2000"},
    "customAttributes": {"milk": "oat", "cups": [1.5, None]},
}


@pytest.fixture
def shop(organization):
    return Shop(organization)


def member_ids_of(lines):
    return [json.loads(line)["loyaltyMemberId"] for line in lines]


def test_exported_members_can_be_imported_unchanged(api, organization):
    gold = {"name": "Gold", "active": True, "minRequiredPoints": 10, "tierOrder": 1}
    tier_expires_at = (datetime.now(UTC) + timedelta(days=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    target_organization = api.organization()
    # The export names the tier, because its program has another id in the target organization.
    assert organization.defaults.loyalty_program_id != target_organization.defaults.loyalty_program_id
    for tenant in (organization, target_organization):
        path = f"/loyalty-programs/{tenant.defaults.loyalty_program_id}/tiers"
        tenant.administration.post(path, gold)
    organization.member("ana", profile=PROFILE, publicLoyaltyMemberId="A-1", customAttributes={"a": {"b": 1.5}})
    organization.member("ben", active=False, notifications={"push": False}, referralCode="FRIEND")
    Imports(organization).run(f"loyaltyMemberId,joinedAt,tier,tierExpiresAt\ncora,2020-03-02,Gold,{tier_expires_at}\n")
    lines = exported_lines(organization)
    [_ana, _ben, cora] = map(json.loads, lines)
    assert cora == {
        "loyaltyMemberId": "cora",
        "active": True,
        "joinedAt": "2020-03-02T00:00:00Z",
        "tier": "Gold",
        "tierExpiresAt": tier_expires_at,
        "tierHold": "floor",
    }
    job = Imports(target_organization).run("".join(lines), file_format="ndjson")
    assert status_read_done_failed(job) == ("done", 3, 3, 0), Imports(target_organization).errors(job)
    assert exported_lines(target_organization) == lines
    member = target_organization.integration.get("/members/ana")["loyaltyMember"]
    assert member["profile"]["customAttributes"] == {"milk": "oat", "cups": [1.5, None]}


def test_exported_balances_can_be_imported_unchanged(api, organization):
    target_organization = api.organization()
    expires_at = (datetime.now(UTC) + timedelta(days=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for tenant in (organization, target_organization):
        Shop(tenant).account(pointTrackingEnabled=True, alias="stars", decimals=2)
        tenant.member("ana")
        tenant.member("ben")
    rows = ["ana,340,,", f"ana,1.25,stars,{expires_at}", "ana,2.5,stars,", "ben,7,,"]
    Imports(organization).run("loyaltyMemberId,amount,account,expiresAt\n" + "\n".join(rows), kind="balances")
    lines = exported_lines(organization, "balances")
    # Earned points are exported in rows of their own, with the amount 0 and the start of a quarter of an hour.
    quarter = json.loads(lines[1])["earnedAt"]
    assert timedelta() <= datetime.now(UTC) - datetime.fromisoformat(quarter) < timedelta(minutes=16)
    # Member, amount, account, expiresAt if there is one, qualifyingAmount, earnedAt if there is one; without the key.
    # The earned stars are 1.25 + 2.5.
    assert [tuple(json.loads(line).values())[:-1] for line in lines] == [
        ("ana", 340, "points", 0),
        ("ana", 0, "points", 340, quarter),
        ("ana", 1.25, "stars", expires_at, 0),
        ("ana", 2.5, "stars", 0),
        ("ana", 0, "stars", 3.75, quarter),
        ("ben", 7, "points", 0),
        ("ben", 0, "points", 7, quarter),
    ]
    Imports(target_organization).run("".join(lines), kind="balances", file_format="ndjson")
    assert exported_lines(target_organization, "balances") == lines
    Shop(target_organization).check_ledger()


@pytest.mark.slow
def test_exported_pending_points_can_be_imported_unchanged(api):
    # Both clocks are at 1 March 2026, 10:00 in Madrid.
    clock, target_clock = Clock.new(api), Clock.new(api)
    rows = [
        "ana,30,,2026-03-15,2026-02-01,,",
        "ana,5,stars,2026-03-15T09:00:00Z,,2026-04-01,2",
        "ana,4,stars,2026-03-15T09:00:00Z,,,",
        "ana,3,stars,,,,",
        "ana,2,,2026-02-28,,,",
    ]
    for clock_of_tenant in (clock, target_clock):
        shop = Shop(clock_of_tenant.organization)
        after_14_days = {"availableAfter": "P14D"}
        shop.account(pointTrackingEnabled=True, alias="stars", expiresInMonths=12, defaultAvailability=after_14_days)
        shop.member(loyalty_member_id="ana")
    header = "loyaltyMemberId,amount,account,availableAt,earnedAt,expiresAt,qualifyingAmount"
    job = Imports(clock.organization).run("\n".join([header, *rows]), kind="balances")
    assert status_read_done_failed(job)[2:] == (5, 0), Imports(clock.organization).errors(job)

    def lines_of(clock):
        """The rows of an export at the time of the clock."""
        with clock.organization.api.engine.connect() as db:
            now = organizations.find_time(db, clock.organization.id)
        return exported_lines(clock.organization, "balances", now=now)

    lines = lines_of(clock)
    now, available_at = "2026-03-01T09:00:00Z", "2026-03-15T09:00:00Z"
    # Amount, account, expiresAt, qualifyingAmount, earnedAt and availableAt; rows without a moment lack its field.
    # Midnight in Madrid is 23:00 UTC of the day before. Stars expire 12 months after they are available.
    assert [tuple(json.loads(line).values())[1:-1] for line in lines] == [
        (2, "points", 0),
        (0, "points", 2, now),
        (30, "points", 30, "2026-01-31T23:00:00Z", "2026-03-14T23:00:00Z"),
        (3, "stars", "2027-03-01T09:00:00Z", 0),
        (0, "stars", 3, now),
        (5, "stars", "2026-04-01T22:00:00Z", 2, now, available_at),
        (4, "stars", "2027-03-15T09:00:00Z", 4, now, available_at),
    ]
    Imports(target_clock.organization).run("".join(lines), kind="balances", file_format="ndjson")
    assert lines_of(target_clock) == lines
    # From the moment `available_at` on, they are like other points, whether or not the worker has run.
    at = datetime.fromisoformat(available_at)
    lines_before_worker, target_lines_before_worker = (
        exported_lines(clock_of_tenant.organization, "balances", now=at) for clock_of_tenant in (clock, target_clock)
    )
    assert lines_before_worker == target_lines_before_worker
    for clock_of_tenant in (clock, target_clock):
        clock_of_tenant.advance(available_at)
        assert lines_of(clock_of_tenant) == lines_before_worker
        Shop(clock_of_tenant.organization).check_ledger()
    assert "availableAt" not in "".join(lines_before_worker)


@pytest.mark.parametrize("is_tracked", [False, True])
def test_points_that_have_become_available_repay_debt_before_they_are_exported(clock, is_tracked):
    points = Points.new(clock.organization, overdraftLimit=20, pointTrackingEnabled=is_tracked)
    wallet = clock.organization.member("ana")["ledgerWalletId"]
    points.burn(wallet, 10, allowOverdraft=True)
    for amount in (4, 30):
        points.mint(wallet, amount, availableAfter="P1D")
    available_at = datetime(2026, 3, 2, 9, tzinfo=UTC)

    def exported_amount():
        lines = exported_lines(clock.organization, "balances", now=available_at)
        return sum(json.loads(line)["amount"] for line in lines)

    # The balance is 4 + 30 - 10, whether or not the worker has made the points available.
    assert exported_amount() == 24
    clock.advance(available_at.isoformat())
    assert (exported_amount(), points.balance(wallet)) == (24, 24)


@pytest.mark.parametrize("is_tracked", [False, True])
def test_points_that_a_pending_transaction_holds_are_not_exported(organization, is_tracked):
    points, member = Points.new(organization, pointTrackingEnabled=is_tracked), organization.member("ana")
    points.mint(member["ledgerWalletId"], 100)
    points.burn(member["ledgerWalletId"], 60, captureMethod="manual")
    rows = map(json.loads, exported_lines(organization, "balances"))
    # A further row has the earned points, which have the amount 0.
    assert [row["amount"] for row in rows] == [100 - 60, 0]


def test_a_return_reduces_the_exported_qualifying_points_of_points_that_wait(clock):
    shop, available_at = Shop(clock.organization), datetime(2026, 3, 15, 9, tzinfo=UTC)
    shop.campaign(running(mint(100, qualifyingAmount=40, availableAfter="P14D")), eventType=ORDER_CREATED)
    member = shop.member()
    shop.track_one(order(member, 10, external_id="o-1"))
    shop.track_one(order_update(member, "o-1", "confirmed"))
    shop.track_one(order(member, 5, status="partially-returned", external_id="o-1"))

    def exported_amounts(now):
        """The sums of the points and of the qualifying points."""
        rows = [json.loads(line) for line in exported_lines(clock.organization, "balances", now=now)]
        return sum(row["amount"] for row in rows), sum(row["qualifyingAmount"] for row in rows)

    # Half of the order is left, and so half of the 100 and the 40.
    assert exported_amounts(available_at - timedelta(days=1)) == (50, 20)
    assert exported_amounts(available_at) == (50, 20)
    clock.advance(available_at.isoformat())
    assert exported_amounts(available_at) == (50, 20)


def test_an_export_can_start_after_a_member_or_contain_only_changed_members(organization):
    ana, ben, _cora = (organization.member(name) for name in ("ana", "ben", "cora"))
    assert member_ids_of(exported_lines(organization, after=ana["memberId"])) == ["ben", "cora"]
    since = datetime.now(UTC)
    organization.integration.patch("/members/ana", {"profile": {"name": "Ana"}})
    assert member_ids_of(exported_lines(organization, updated_from=since)) == ["ana"]
    organization.administration.delete(f"/members/{ben['memberId']}", expect=200)
    assert member_ids_of(exported_lines(organization)) == ["ana", "cora"]


def test_texts_with_any_line_break_can_be_exported(organization):
    name = "a\u2028b\u2029c\u0085d\x1ce\x0bf\ng"
    organization.member("ana", profile={"name": name})
    export = organization.administration.post("/exports", {"kind": "members"})["export"]
    path = f"/exports/{export['exportId']}"
    writer = ExportWriter(organization.api.engine, organization.api.settings, is_stopping=lambda: False)
    while writer.step():
        pass
    assert organization.administration.get(f"{path}/parts/1")["results"][0]["name"] == name
    for media_type in ("application/x-ndjson", "text/csv"):
        headers = {"Accept": media_type}
        reply = organization.administration.request("GET", f"{path}/parts/1", headers=headers, expect=200)
        if media_type == "text/csv":
            [row] = csv.DictReader(io.StringIO(reply.text, newline=""))
            assert row["name"] == name
        else:
            [line] = reply.text.removesuffix("\n").split("\n")
            assert json.loads(line)["name"] == name


def test_cells_of_csv_are_not_read_as_formulas(organization):
    organization.member("ana", profile=PROFILE)
    with organization.api.engine.connect() as db:
        [row] = ROWS["members"](db, ExportRange(organization.id))
    text = csv_header("members") + csv_row("members", row)
    [exported_row] = csv.DictReader(io.StringIO(text, newline=""))
    # PROFILE has the name =Ana and the phone number +54 11.
    assert (exported_row["name"], exported_row["phoneNumber"], exported_row["tags"]) == (
        "'=Ana",
        "'+54 11",
        "barista|taster",
    )
    assert (exported_row["lastName"], exported_row["active"], exported_row["govId"]) == (
        'Costa, "the first"',
        "true",
        "30111222",
    )


@pytest.mark.parametrize("kind", list(ROLE_OF_KIND))
def test_the_number_of_statements_does_not_depend_on_the_size_of_an_export(organization, kind):
    Imports(organization).run("loyaltyMemberId\nm-1\n")
    statements_of_small_export = count(organization.api.engine, lambda: exported_lines(organization, kind))
    Imports(organization).run("loyaltyMemberId\n" + "\n".join(f"n-{number}" for number in range(200)))
    assert count(organization.api.engine, lambda: exported_lines(organization, kind)) == statements_of_small_export


@pytest.mark.parametrize("kind", ["members", "audience-members", "events"])
def test_few_rows_of_an_export_are_in_memory(organization, monkeypatch, kind):
    create_referenced_records(organization)
    names = [f"n-{number}" for number in range(3 * ROWS_IN_MEMORY)]
    columns = {"audience-members": ("audience", "Testers"), "events": ("eventType", GENERIC)}
    Imports(organization).run("loyaltyMemberId\n" + "\n".join(names))
    if kind in columns:
        column, value = columns[kind]
        rows = "".join(f"{name},{value}\n" for name in names)
        Imports(organization).run(f"loyaltyMemberId,{column}\n{rows}", kind=kind)
    numbers_of_rows = []
    fetch = PipeliningCursor.fetchmany

    def count_rows(cursor, size):
        rows = fetch(cursor, size)
        numbers_of_rows.append(len(rows))
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(PipeliningCursor, "fetchmany", count_rows)
        # The other way to read rows reads all of them.
        patch.setattr(PipeliningCursor, "fetchall", lambda cursor: count_rows(cursor, 1_000_000))
        lines = exported_lines(organization, kind)
    assert {*names} <= {*member_ids_of(lines)}
    assert max(numbers_of_rows) == ROWS_IN_MEMORY


def test_a_balance_with_too_many_rows_fails_its_export(jobs, organization, monkeypatch):
    organization.member("ana")
    Shop(organization).account(pointTrackingEnabled=True, alias="stars")
    rows = "loyaltyMemberId,amount,account,expiresAt\nana,1,stars,2090-01-01\nana,1,stars,2090-01-02\n"
    Imports(organization).run(rows, kind="balances")
    # One row for each expiry, and one for the points earned in this quarter of an hour.
    monkeypatch.setattr(export_rows, "MAX_ROWS_OF_BALANCE", 3)
    assert len(exported_lines(organization, "balances")) == 3
    monkeypatch.setattr(export_rows, "MAX_ROWS_OF_BALANCE", 2)
    _, export = jobs.run(kind="balances")
    assert (export["status"], export["rows"], export["error"]) == (
        "failed",
        0,
        "The balance of the member ana in the account stars would be more than 2 rows, the maximum.",
    )


def create_referenced_records(organization):
    """Create the records that `ROWS_OF` names, and two books with the same name; return the book of the rows."""
    books = CouponBooks(organization)
    book = books.make(name="Flat white")
    for name in ("Twice", "Twice"):
        books.make(name=name)
    organization.integration.post("/badges", {"name": "Regular", "maxAmount": 9, "active": True})
    organization.administration.post("/audiences", {"name": "Testers", "active": True, "matcherType": "list-matcher"})
    create(Shop(organization), name="Coffees", goalCount=10)
    for name in ("ana", "ben"):
        organization.member(name)
    return book


# kind -> the lines of a file to import: the names of the columns, and the rows.
ROWS_OF = {
    "coupon-codes": ["couponBook,code", "Flat white,A-1", "Flat white,A-2", "Flat white,=A"],
    "coupons": ["loyaltyMemberId,couponBook,code,amount", "ana,Flat white,A-2,3", "ben,Flat white,A-1,1"],
    "badges": ["loyaltyMemberId,badge,amount", "ana,Regular,2", "ben,Regular,1"],
    "audience-members": ["loyaltyMemberId,audience", "ana,Testers", "ben,Testers"],
    "events": ["loyaltyMemberId,eventType,externalEventDate,description", "ana,member-generic-event,2025-03-02,Old"],
    "mission-progress": ["loyaltyMemberId,mission,count,timesAchieved", "ana,Coffees,7,2", "ben,Coffees,3,0"],
}


@pytest.mark.slow
def test_exported_records_of_members_can_be_imported_unchanged(api, organization):
    target_organization = api.organization()
    for tenant in (organization, target_organization):
        create_referenced_records(tenant)
    for kind, rows in ROWS_OF.items():
        job = Imports(organization).run("\n".join(rows), kind=kind)
        # All rows but the header are done, and none failed.
        assert status_read_done_failed(job)[2:] == (len(rows) - 1, 0), Imports(organization).errors(job)
        lines = exported_lines(organization, kind)
        assert len(lines) == len(rows) - 1
        job = Imports(target_organization).run("".join(lines), kind=kind, file_format="ndjson")
        assert status_read_done_failed(job)[2:] == (len(lines), 0), Imports(target_organization).errors(job)
        assert exported_lines(target_organization, kind) == lines
    [exported_row] = map(json.loads, exported_lines(organization, "events"))
    assert exported_row.pop("systemUniqueKey").startswith("import-")
    assert exported_row == {
        "loyaltyMemberId": "ana",
        "eventType": "member-generic-event",
        "payload": {},
        "externalEventDate": "2025-03-02T00:00:00Z",
        "description": "Old",
    }


def test_exported_events_are_those_that_the_server_did_not_emit(organization, shop):
    # Gold requires the 5 points that the campaign mints, so the event of the client causes an event of the server.
    tier = {"name": "Gold", "active": True, "minRequiredPoints": 5, "tierOrder": 1}
    program = f"/loyalty-programs/{organization.defaults.loyalty_program_id}"
    gold = organization.administration.post(f"{program}/tiers", tier)["tier"]
    shop.campaign(running(mint(5)), eventType=GENERIC)
    member = organization.member("ana")
    path = f"/members/{member['memberId']}{program}/tier"
    organization.administration.put(path, {"loyaltyTierId": gold["loyaltyTierId"]})
    organization.administration.put(path, {})
    # Clients may form their keys in the same way as the server.
    key = f"{GENERIC}-01a2281d-a8d2-7bcb-a722-0cb5e3d8639d"
    assert shop.track_one(event("ana", systemUniqueKey=key))["status"] == "success"
    types = [json.loads(line)["eventType"] for line in exported_lines(organization, "event-results")]
    # The tier is set and unset by request, and set by the points of the client's event.
    assert types == ["member-created", "member-tier-set", "member-tier-set", GENERIC, "member-tier-set"]
    assert [json.loads(line)["systemUniqueKey"] for line in exported_lines(organization, "events")] == [key]


def test_records_with_the_same_name_are_exported_by_their_keys(organization):
    create_referenced_records(organization)
    keys = {book["couponBookKey"] for book in organization.integration.get("/coupon-books")["results"]}
    for key in keys:
        organization.integration.post(f"/coupon-books/{key}/coupons", {"codes": ["A"]})
    book_names = {json.loads(line)["couponBook"] for line in exported_lines(organization, "coupon-codes")}
    # The book with a unique name is exported by its name, the two books with the name Twice by their keys.
    assert len(book_names) == 3
    assert "Flat white" in book_names
    assert len(book_names & keys) == 2


def test_events_transactions_usages_and_audit_entries_are_exported(organization, shop):
    book = create_referenced_records(organization)
    shop.campaign(running(mint(5)), eventType=GENERIC)
    result = shop.track_one(event("ana", description="A cup"))
    shop.track_one(order("ana", "12.50"))
    organization.integration.post(f"/coupon-books/{book['couponBookKey']}/coupons", {"codes": ["A"]})
    path = f"/members/ana/coupon-books/{book['couponBookKey']}/assign"
    usage = organization.integration.post(path, {"code": "A"}, expect=200)["couponUsage"]

    rows_by_type = {row["eventType"]: row for row in map(json.loads, exported_lines(organization, "event-results"))}
    generic_row = rows_by_type[GENERIC]
    assert (generic_row["loyaltyEventKey"], generic_row["description"]) == (result["loyaltyEventKey"], "A cup")
    assert (generic_row["result"]["effects"], generic_row["status"]) == (result["effects"], "success")
    assert rows_by_type["member-purchase-order-created"]["payload"]["order"]["total"] == 12.5

    [transaction] = map(json.loads, exported_lines(organization, "ledger-transactions"))
    assert (transaction["transactionType"], transaction["amount"], transaction["toLoyaltyMemberId"]) == (
        "mint",
        5,
        "ana",
    )
    assert transaction["loyaltyEventId"] == generic_row["loyaltyEventId"]

    [assignment] = map(json.loads, exported_lines(organization, "coupon-usages"))
    assert {name: assignment[name] for name in ("couponUsageKey", "code", "amountAssigned", "createdAt")} == {
        name: usage[name] for name in ("couponUsageKey", "code", "amountAssigned", "createdAt")
    }
    entries = [json.loads(line) for line in exported_lines(organization, "audit-log")]
    assert {"createBadge", "assignCoupon"} <= {entry["operationId"] for entry in entries}


# kind -> the field in which rows about ana have her id.
MEMBER_FIELDS = {
    **dict.fromkeys(ROLE_OF_KIND.keys() - {"coupon-codes", "audit-log"}, "loyaltyMemberId"),
    "ledger-transactions": "toLoyaltyMemberId",
}


class FieldFilter(NamedTuple):
    """A filter, and the field and the value by which it selects rows; None is the value in `filter_values["keys"]`."""

    name: str
    field: str
    value: str | None


# kind -> its filter besides those by member and moment.
FIELD_FILTERS = {
    "balances": FieldFilter("ledgerAccountId", field="account", value="stars"),
    "coupon-codes": FieldFilter("couponBookId", field="couponBook", value="Espresso"),
    "coupons": FieldFilter("couponBookId", field="couponBook", value="Espresso"),
    "events": FieldFilter("eventType", field="eventType", value=GENERIC),
    "event-results": FieldFilter("eventType", field="eventType", value=GENERIC),
    "ledger-transactions": FieldFilter("ledgerAccountId", field="ledgerAccountKey", value=None),
    "coupon-usages": FieldFilter("couponBookId", field="couponBookKey", value=None),
}


@pytest.fixture(scope="module")
def filled_organization(api):
    """An organization for `filter_values`; it is shared by tests because exports change nothing in it."""
    return api.organization()


@pytest.fixture(scope="module")
def filter_values(filled_organization):
    """Create records of every kind, those of ana before `since` and those of ben after it; return values of filters."""
    organization = filled_organization
    shop = Shop(organization)
    create_referenced_records(organization)
    stars = shop.account(pointTrackingEnabled=True, alias="stars")
    espresso = CouponBooks(organization).make(name="Espresso")
    rows = {
        **ROWS_OF,
        "coupon-codes": ["couponBook,code", "Flat white,A-1", "Flat white,A-2", "Espresso,E-1", "Espresso,E-2"],
        "coupons": ["loyaltyMemberId,couponBook,code,amount", "ana,Espresso,E-1,1"],
        "balances": ["loyaltyMemberId,amount,account", "ana,3,", "ana,4,stars"],
    }
    for kind, lines in rows.items():
        Imports(organization).run("\n".join(line for line in lines if not line.startswith("ben")), kind=kind)
    shop.track_one(event("ana"))
    since = datetime.now(UTC)
    organization.member("cora")
    for kind, line in {
        "coupons": "ben,Flat white,A-1,2",
        "balances": "ben,7,stars",
        "badges": "ben,Regular,1",
        "mission-progress": "ben,Coffees,3,0",
    }.items():
        Imports(organization).run(f"{rows[kind][0]}\n{line}\n", kind=kind)
    Imports(organization).run("audience,loyaltyMemberId\nTesters,ben\n", kind="audience-members")
    Imports(organization).run("couponBook,code\nEspresso,E-3\n", kind="coupon-codes")
    shop.track_one(order("ben", "12.50"))
    return {
        "memberId": organization.integration.get("/members/ana")["loyaltyMember"]["memberId"],
        "ledgerAccountId": stars["ledgerAccountId"],
        "couponBookId": espresso["couponBookId"],
        "eventType": GENERIC,
        "since": since.isoformat(),
        "keys": {"ledgerAccountKey": stars["ledgerAccountKey"], "couponBookKey": espresso["couponBookKey"]},
    }


@pytest.mark.parametrize("kind", list(ROLE_OF_KIND))
def test_filters_select_the_matching_rows(filled_organization, filter_values, kind):
    def rows(**filters):
        return [json.loads(line) for line in exported_lines(filled_organization, kind, filters=filters)]

    all_rows = rows()
    if kind in MEMBER_FIELDS:
        member_rows = [row for row in all_rows if row.get(MEMBER_FIELDS[kind]) == "ana"]
        assert rows(memberId=filter_values["memberId"]) == member_rows
        assert 0 < len(member_rows) < len(all_rows)
    if kind in FIELD_FILTERS:
        name, field, value = FIELD_FILTERS[kind]
        matching_rows = [row for row in all_rows if row[field] == (value or filter_values["keys"][field])]
        assert rows(**{name: filter_values[name]}) == matching_rows
        assert 0 < len(matching_rows) < len(all_rows)
    if "createdFrom" in FILTERS_OF_KIND[kind]:
        early_rows, late_rows = rows(createdTo=filter_values["since"]), rows(createdFrom=filter_values["since"])
        assert early_rows + late_rows == all_rows
        assert 0 < len(early_rows) < len(all_rows)
    if kind == "audit-log":
        rows_about_ana = [row for row in all_rows if filter_values["memberId"] in row.get("memberIds", ())]
        assert rows(memberId=filter_values["memberId"]) == rows_about_ana
        assert 0 < len(rows_about_ana) < len(all_rows)


def test_an_export_stores_its_filters_and_applies_them(jobs, organization):
    ana = organization.member("ana")
    organization.member("ben")
    path, export = jobs.run(filters={"memberId": ana["memberId"], "createdFrom": "2020-01-01T01:00:00+01:00"})
    assert export["filters"] == dict.fromkeys(FILTERS) | {
        "memberId": ana["memberId"],
        "createdFrom": "2020-01-01T00:00:00Z",
    }
    assert [row["loyaltyMemberId"] for row in jobs.part(path).json["results"]] == ["ana"]
    assert jobs.run(filters={"createdTo": None})[1]["filters"] == dict.fromkeys(FILTERS)


@pytest.mark.parametrize(
    ("kind", "filters", "status", "expected_text"),
    [
        ("members", {"eventType": GENERIC}, 400, "is no filter of members"),
        ("badges", {"createdFrom": "2026-01-01T00:00:00Z"}, 400, "filtered by memberId"),
        ("members", {"memberId": 999_999_999}, 404, "There is no member 999999999"),
        ("balances", {"ledgerAccountId": 999_999_999}, 404, "There is no ledger account"),
        ("coupons", {"couponBookId": 999_999_999}, 404, "There is no coupon book"),
    ],
)
def test_filters_of_another_kind_and_filters_by_unknown_records_are_refused(
    organization, kind, filters, status, expected_text
):
    problem = organization.administration.post("/exports", {"kind": kind, "filters": filters}, expect=status)
    assert expected_text in json.dumps(problem)


class Jobs:
    """Exports that are created by the API and written in this process."""

    def __init__(self, organization):
        self.organization = organization
        self.administration = organization.administration
        self.writer = ExportWriter(organization.api.engine, organization.api.settings, is_stopping=lambda: False)

    def begin(self, kind="members", **options):
        """Create an export that waits for the writer; return its path."""
        export = self.administration.post("/exports", {"kind": kind, **options})["export"]
        return f"/exports/{export['exportId']}"

    def run(self, kind="members", **options):
        """Create and write an export; return its path and its record."""
        path = self.begin(kind, **options)
        self.write()
        return path, self.get(path)

    def write(self):
        """Write the exports of all organizations until none is waiting."""
        while self.writer.step():
            pass

    def get(self, path):
        return self.administration.get(path)["export"]

    def part(self, path, number=1, accept="application/json", expect=200):
        """The reply to a request for a part of the rows."""
        headers = {"Accept": accept}
        return self.administration.request("GET", f"{path}/parts/{number}", headers=headers, expect=expect)


@pytest.fixture
def jobs(organization):
    return Jobs(organization)


def test_rows_of_ledger_transactions_add_up_to_the_balance(organization, shop):
    member, points = shop.member(), Points.default(organization)
    wallet = organization.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerWalletId"]
    shop.campaign(
        running(mint(("=", "floor(order.total)"), availableAfter="P14D"), rule="order.externalId == 'waiting'"),
        running(mint(("=", "floor(order.total)")), rule="order.externalId != 'waiting'", priority=2),
        eventType=ORDER_CREATED,
    )
    # The points of the order "waiting" become available after 14 days, those of the other orders at once.
    for external_id in ("waiting", "available"):
        shop.track_one(order(member, 100, external_id=external_id))
        shop.track_one(order_update(member, external_id, "confirmed"))
        shop.track_one(order(member, 40, status="partially-returned", external_id=external_id))
    points.revert(points.mint(wallet, 7, availableAfter="P14D"))
    points.revert(points.mint(wallet, 8, captureMethod="manual"))
    partly_captured_mint = points.mint(wallet, 9, captureMethod="manual")
    uncaptured_mint = points.mint(wallet, 6, captureMethod="manual")
    points.capture((partly_captured_mint, 5), (uncaptured_mint, 0))
    points.revert(points.mint(wallet, 3))
    # The burn of 95 spends 60 of the available order, 5 captured points and 30 of these 50, so the revert takes 20.
    shop.track_one(order(member, 50, external_id="cancelled"))
    points.burn(wallet, 95)
    shop.track_one(order_update(member, "cancelled", "cancelled"))
    rows = [json.loads(line) for line in exported_lines(organization, "ledger-transactions")]
    # The first order is split into 60 and 40 pending points, of which the return reverts 40.
    assert [(row["amount"], row["status"]) for row in rows][:4] == [
        (60, PENDING),
        (40, REVERTED),
        (100, SETTLED),
        (40, SETTLED),
    ]
    settled_rows = {row["ledgerTransactionId"]: row for row in rows if row["status"] == SETTLED}
    settled_rows |= {
        row["ledgerTransactionId"]: row for row in rows if row.get("reversalLedgerTransactionId") in settled_rows
    }
    sums = dict.fromkeys(("mint", "burn"), 0)
    for row in settled_rows.values():
        if row["transactionType"] == "revert":
            sums[settled_rows[row["revertedLedgerTransactionId"]]["transactionType"]] -= row["amount"]
        else:
            sums[row["transactionType"]] += row["amount"]
    # The returned order, the captured points, and the cancelled order.
    assert sums == {"mint": (100 - 40) + 5 + (50 - 20), "burn": 95}
    assert shop.balance(member) == 0


def test_the_parts_of_an_export_form_one_file(jobs, organization, monkeypatch):
    monkeypatch.setattr(write, "ROWS_IN_PART", 2)
    member_names = ["ana", "ben", "cora", "dan", "eva"]
    members = [organization.member(name, profile={"name": "=A"}) for name in member_names]
    path, export = jobs.run()
    # Five rows in parts of two.
    assert (export["status"], export["parts"], export["rows"], export["lastId"]) == (
        "done",
        3,
        5,
        members[-1]["memberId"],
    )
    finished_at, expires_at = (datetime.fromisoformat(export[name]) for name in ("finishedAt", "expiresAt"))
    assert expires_at - finished_at == ROWS_KEPT_FOR
    assert [row["loyaltyMemberId"] for row in jobs.part(path).json["results"]] == ["ana", "ben"]
    lines = "".join(jobs.part(path, number, "application/x-ndjson").text for number in (1, 2, 3))
    assert [json.loads(line)["loyaltyMemberId"] for line in lines.splitlines()] == member_names
    assert len(lines.encode()) == export["bytes"]
    table = "".join(jobs.part(path, number, "text/csv").text for number in (1, 2, 3))
    rows = list(csv.DictReader(io.StringIO(table, newline="")))
    # An apostrophe is put before a text that spreadsheets would take for a formula.
    assert [(row["loyaltyMemberId"], row["name"]) for row in rows] == [(name, "'=A") for name in member_names]
    assert jobs.part(path, 4, expect=404).json["type"] == "/problems/unknown-export-part"


def test_an_export_after_the_last_exported_member_has_no_rows(jobs, organization):
    organization.member("ana")
    _, export = jobs.run()
    _, export_after_the_last_member = jobs.run(after=export["lastId"])
    assert (export["rows"], export_after_the_last_member["rows"]) == (1, 0)


def test_exports_are_listed_newest_first(jobs):
    jobs.run(description="For the warehouse")
    jobs.run()
    exports_newest_first = jobs.administration.get("/exports", status="done")["results"]
    assert [export["description"] for export in exports_newest_first] == [None, "For the warehouse"]


def test_a_csv_of_members_is_imported_unchanged(jobs, organization, api):
    names = {"+c1": "=A", "'+c2": "''=B", "'t": "+54 11 4444", "ana": "-5", "ben": "'"}
    for loyalty_member_id, name in names.items():
        organization.member(loyalty_member_id, profile={"name": name})
    path, _ = jobs.run()
    table = jobs.part(path, accept="text/csv").text
    target = api.organization()
    assert status_read_done_failed(Imports(target).run(table, ignoreUnknownColumns=True)) == ("done", 5, 5, 0)
    members = target.integration.get("/members")["results"]
    assert {member["loyaltyMemberId"]: member["profile"]["name"] for member in members} == names


def test_tags_with_a_bar_in_a_csv_are_imported_unchanged(jobs, organization, api):
    organization.member("ana", profile={"tags": ["a|b", " c"]})
    path, _ = jobs.run()
    table = jobs.part(path, accept="text/csv").text
    target = api.organization()
    assert status_read_done_failed(Imports(target).run(table, ignoreUnknownColumns=True)) == ("done", 1, 1, 0)
    assert target.integration.get("/members/ana")["loyaltyMember"]["profile"]["tags"] == ["a|b", " c"]


def test_an_export_starts_at_the_time_of_the_test_clock(api):
    clock = Clock.new(api, starts_at="2026-01-05T08:00:00Z")
    jobs = Jobs(clock.organization)
    clock.organization.member("ana")
    _, export = jobs.run()
    assert (export["createdAt"], export["startedAt"]) == ("2026-01-05T08:00:00Z", "2026-01-05T08:00:00Z")
    clock.advance("2026-01-06T08:00:00Z")
    clock.organization.member("ben")
    # Only Ben was created after the clock was advanced.
    path, _ = jobs.run(updatedFrom="2026-01-06T08:00:00Z")
    assert [row["loyaltyMemberId"] for row in jobs.part(path).json["results"]] == ["ben"]


def test_an_export_of_an_organization_with_a_test_clock_ends_and_expires_in_real_time(api):
    clock = Clock.new(api, starts_at="2026-01-05T08:00:00Z")
    jobs = Jobs(clock.organization)
    path, _ = jobs.run()
    # The rows are kept for seven days of real time, which is after 2026-01.
    assert datetime.fromisoformat(jobs.get(path)["expiresAt"]) > datetime.now(UTC) + timedelta(days=6)
    cancelled_export = jobs.administration.post(f"{path}/cancel", expect=200)["export"]
    assert datetime.fromisoformat(cancelled_export["finishedAt"]) > datetime.now(UTC) - timedelta(days=1)


def test_rows_can_only_be_read_while_the_export_has_the_status_done(jobs, organization):
    organization.member("ana")
    path = jobs.begin()
    problem = jobs.part(path, expect=409).json
    assert problem["type"] == "/problems/export-state"
    assert "when it is done" in problem["detail"]
    jobs.write()
    jobs.part(path, expect=200)
    assert jobs.administration.post(f"{path}/cancel", expect=200)["export"]["status"] == "cancelled"
    jobs.part(path, expect=409)


def test_a_cancelled_export_has_no_date_of_expiry(jobs):
    path, export = jobs.run()
    assert export["expiresAt"] is not None
    jobs.administration.post(f"{path}/cancel", expect=200)
    assert jobs.get(path)["expiresAt"] is None


def test_a_second_cancellation_of_an_export_changes_nothing(jobs):
    path, _ = jobs.run()
    cancelled_export = jobs.administration.post(f"{path}/cancel", expect=200)["export"]
    assert cancelled_export["status"] == "cancelled"
    assert jobs.administration.post(f"{path}/cancel", expect=200)["export"] == cancelled_export


def expire_rows(organization):
    """Let all exports expire and remove those of the organization, as the worker does it after the time of keeping."""
    engine = organization.api.engine
    end_of_keeping = datetime.now(UTC) + ROWS_KEPT_FOR
    while transactions.run(engine, lambda db: exports.expire(db, end_of_keeping, limit=10)):
        pass
    while not transactions.run(engine, lambda db: EXPORTS.remove_content_of_ended(db, organization.id)):
        pass


def test_the_rows_of_an_export_are_removed_when_they_expire(jobs, organization):
    organization.member("ana")
    path, _ = jobs.run()
    expire_rows(organization)
    assert jobs.get(path)["status"] == "expired"
    jobs.part(path, expect=409)
    assert Shop(organization).rows("export_parts") == []


def test_an_export_also_needs_the_role_to_read_its_records(jobs, organization):
    path, _ = jobs.run()
    exporter_of_members = organization.administration.with_token(organization.token_of("exports:write", "members:read"))
    exporter_of_members.post("/exports", {"kind": "members"})
    exporter_of_members.post("/exports", {"kind": "audit-log"}, expect=403)
    problem = exporter_of_members.post("/exports", {"kind": "balances"}, expect=403)
    assert "ledgers:read" in problem["detail"]
    reader = organization.administration.with_token(organization.token_of("exports:read"))
    assert reader.get(path)["export"]["status"] == "done"
    reader.get(f"{path}/parts/1", expect=403)


def test_a_worker_continues_an_export_whose_worker_crashed(jobs, organization, monkeypatch):
    monkeypatch.setattr(write, "ROWS_IN_PART", 1)
    for name in ("ana", "ben"):
        organization.member(name)
    path, engine, now = jobs.begin(), organization.api.engine, datetime.now(UTC)

    def claim_export(at):
        """Claim the export as a worker does it at this moment; return the claim."""
        export_id = jobs.get(path)["exportId"]
        return transactions.run(engine, lambda db: exports.claim(db, organization.id, export_id, at))

    # A worker claims the export, writes one part and crashes.
    first_claim = claim_export(now)
    add_part = partial(exports.add_part, job=first_claim, content="{}\n", rows=1, last_id=1)
    assert transactions.run(engine, lambda db: add_part(db, now=now))
    jobs.write()
    assert (jobs.get(path)["status"], jobs.get(path)["rows"]) == ("running", 1)
    # Another worker can claim the export after a time; the part that the dead worker writes then is refused.
    second_claim = claim_export(now + 2 * ABANDONED_AFTER)
    assert (second_claim.export_id, second_claim.attempt, second_claim.rows) == (first_claim.export_id, 2, 0)
    assert not transactions.run(engine, lambda db: add_part(db, now=now))
    transactions.run(engine, lambda db: EXPORTS.store(db, second_claim, {"status": "queued"}, datetime.now(UTC)))
    jobs.write()
    # Each part has one row: ana is in the first.
    assert [row["loyaltyMemberId"] for row in jobs.part(path, number=2).json["results"]] == ["ben"]
    assert jobs.get(path)["rows"] == 2


def test_an_export_that_crashes_5_workers_fails(jobs, organization):
    organization.member("ana")
    path, engine, now = jobs.begin(), organization.api.engine, datetime.now(UTC)
    export_id = jobs.get(path)["exportId"]
    # Five workers claim the export and die; the last claim was two minutes ago.
    for number in range(5, 0, -1):
        at = now - 2 * number * ABANDONED_AFTER
        assert transactions.run(engine, lambda db, at=at: exports.claim(db, organization.id, export_id, at))
    jobs.write()
    failed_export = jobs.get(path)
    assert (failed_export["status"], failed_export["rows"]) == ("failed", 0)
    assert failed_export["error"] == "Workers have died 5 times while they wrote the export."


def test_the_export_of_an_organization_does_not_wait_for_all_exports_of_another_one(
    jobs, organization, other_organization
):
    # Exports of other tests must not wait before these.
    jobs.write()
    other_jobs = Jobs(other_organization)
    paths, other_path = [jobs.begin() for _ in range(3)], other_jobs.begin()
    # Each step of the writer writes one of these exports.
    assert jobs.writer.step()
    assert jobs.writer.step()
    assert [jobs.get(path)["status"] for path in paths] == ["done", "queued", "queued"]
    assert other_jobs.get(other_path)["status"] == "done"
    second_other_path = other_jobs.begin()
    assert jobs.writer.step()
    assert jobs.writer.step()
    assert [jobs.get(path)["status"] for path in paths] == ["done", "done", "queued"]
    assert other_jobs.get(second_other_path)["status"] == "done"


@pytest.fixture
def one_row_at_a_time(monkeypatch):
    """Each step of a writer reads one row."""
    monkeypatch.setattr(write, "STEP_SECONDS", 0)
    monkeypatch.setattr(write, "ROWS_BETWEEN_CHECKS", 1)


def test_a_small_export_does_not_wait_for_the_end_of_a_large_one(jobs, api, organization, one_row_at_a_time):
    # Exports of other tests must not wait before these.
    jobs.write()
    # Other tests add members to `other_organization`, which would then have the larger export.
    other_jobs = Jobs(api.organization())
    for name in ("ana", "ben", "cora", "dan", "eva"):
        organization.member(name)
    large_path = jobs.begin()
    assert jobs.writer.step()
    next_large_path, small_path = jobs.begin(), other_jobs.begin()
    # A member who joins later is not in the snapshot.
    organization.member("fay")
    while other_jobs.get(small_path)["status"] != "done":
        assert jobs.writer.step()
    # An organization has one export at a time.
    assert [jobs.get(path)["status"] for path in (large_path, next_large_path)] == ["running", "queued"]
    jobs.write()
    assert [jobs.get(path)["rows"] for path in (large_path, next_large_path)] == [5, 6]
    assert [row["loyaltyMemberId"] for row in jobs.part(large_path).json["results"]] == [
        "ana",
        "ben",
        "cora",
        "dan",
        "eva",
    ]


def test_the_number_of_exports_that_are_written_alternately_is_limited(
    jobs, organization, other_organization, one_row_at_a_time, monkeypatch
):
    # Exports of other tests must not wait before these.
    jobs.write()
    monkeypatch.setattr(write, "MAX_OPEN_EXPORTS", 1)
    other_jobs = Jobs(other_organization)
    organization.member("ana")
    path, other_path = jobs.begin(), other_jobs.begin()
    while jobs.get(path)["status"] != "done":
        assert other_jobs.get(other_path)["status"] == "queued"
        assert jobs.writer.step()
    jobs.write()
    assert other_jobs.get(other_path)["status"] == "done"


def test_a_stopping_worker_returns_its_exports_to_the_queue(jobs, organization, one_row_at_a_time):
    for name in ("ana", "ben"):
        organization.member(name)
    path, is_stopping = jobs.begin(), False
    writer = ExportWriter(organization.api.engine, organization.api.settings, is_stopping=lambda: is_stopping)
    while jobs.get(path)["status"] == "queued":
        assert writer.step()
    assert jobs.get(path)["status"] == "running"
    is_stopping = True
    assert not writer.step()
    assert jobs.get(path)["status"] == "queued"
    # A worker that does not stop writes it.
    jobs.write()
    assert jobs.get(path)["status"] == "done"


def test_an_erased_member_is_in_no_export(jobs, organization):
    ana, _ben = (organization.member(name) for name in ("ana", "ben"))
    done_path, _ = jobs.run()
    running_path = jobs.begin()
    export_id, now = jobs.get(running_path)["exportId"], datetime.now(UTC)
    transactions.run(organization.api.engine, lambda db: exports.claim(db, organization.id, export_id, now))
    organization.administration.delete(f"/members/{ana['memberId']}", expect=200)
    # The rows of the first export are removed, the second export is written from its beginning.
    assert (jobs.get(done_path)["status"], jobs.get(running_path)["status"]) == ("expired", "queued")
    assert Shop(organization).rows("export_parts") == []
    jobs.write()
    assert [row["loyaltyMemberId"] for row in jobs.part(running_path).json["results"]] == ["ben"]


def test_an_export_fails_on_a_system_error(jobs, organization, monkeypatch, caplog):
    organization.member("ana")

    def failing_rows(db, export_range):
        raise ZeroDivisionError
        # Makes this function a generator, like the function that it replaces.
        yield

    path = jobs.begin()
    with monkeypatch.context() as patch:
        patch.setitem(write.ROWS, "members", failing_rows)
        jobs.write()
    assert (jobs.get(path)["status"], jobs.get(path)["error"]) == (
        "failed",
        "The server had an unexpected error, which is in its log.",
    )
    assert "failed" in caplog.text
    jobs.part(path, expect=409)
    assert jobs.administration.post(f"{path}/cancel", expect=200)["export"]["status"] == "failed"


def test_an_organization_can_have_an_unfinished_export_of_each_kind():
    assert len(ROLE_OF_KIND) <= MAX_UNFINISHED_EXPORTS == manage.MAX_UNFINISHED_EXPORTS


def test_an_organization_has_a_maximum_of_unfinished_exports(jobs, organization, api, monkeypatch):
    monkeypatch.setattr(manage, "MAX_UNFINISHED_EXPORTS", 3)
    organization.member("ana")
    first_path, second_path, _ = (jobs.begin() for _ in range(3))
    problem = jobs.administration.post("/exports", {"kind": "members"}, expect=409)
    assert problem["type"] == "/problems/export-limit"
    assert problem["detail"] == (
        "3 exports of the organization are queued or running, the maximum. Wait until one is done, or cancel one by"
        " cancelExport."
    )
    assert jobs.administration.get("/exports")["totalCount"] == 3
    # The limit is for each organization.
    Jobs(api.organization()).begin()
    # A running export counts, too.
    engine, now, export_id = organization.api.engine, datetime.now(UTC), jobs.get(first_path)["exportId"]
    running_export = transactions.run(engine, lambda db: exports.claim(db, organization.id, export_id, now))
    assert jobs.get(first_path)["status"] == "running"
    jobs.administration.post("/exports", {"kind": "members"}, expect=409)
    # Each export that ends, by a request or when it is done, allows another one.
    jobs.administration.post(f"{second_path}/cancel", expect=200)
    jobs.begin()
    jobs.administration.post("/exports", {"kind": "members"}, expect=409)
    finish = {"status": "done", "finished_at": now}
    transactions.run(engine, lambda db: EXPORTS.store(db, running_export, finish, now))
    jobs.begin()
    jobs.administration.post("/exports", {"kind": "members"}, expect=409)
    jobs.write()
    # All exports are done, so there may be three again.
    assert [jobs.get(jobs.begin())["status"] for _ in range(3)] == ["queued"] * 3


@pytest.fixture
def size_of_rows(jobs, organization):
    """Create two members; return the bytes of an export of them, which is cancelled so that its rows are removed."""
    for name in ("ana", "ben"):
        organization.member(name)
    path, export = jobs.run()
    jobs.administration.post(f"{path}/cancel", expect=200)
    return export["bytes"]


def limited_jobs(api, organization):
    """The exports of an organization by an API whose settings limit their bytes."""
    return Jobs(replace(organization, api=api))


@pytest.mark.slow
def test_the_rows_of_all_exports_of_an_organization_have_a_maximum_size(settings, organization, size_of_rows):
    with running_api(replace(settings, export_stored_bytes=2 * size_of_rows)) as api:
        jobs, other_jobs = limited_jobs(api, organization), Jobs(api.organization())
        (first_path, export), (second_path, _) = jobs.run(), jobs.run()
        assert (export["status"], export["bytes"], export["error"]) == ("done", size_of_rows, None)
        problem = jobs.administration.post("/exports", {"kind": "badges"}, expect=409)
        assert problem["type"] == "/problems/export-limit"
        assert problem["detail"] == (
            f"The rows of the organization's exports have {2 * size_of_rows} bytes; the organization may have"
            f" {2 * size_of_rows}. Remove the rows of an export by cancelExport, or wait: they are removed 7 days after"
            " the export was done."
        )
        _, export_of_another_organization = other_jobs.run()
        assert export_of_another_organization["status"] == "done"
        jobs.administration.post(f"{first_path}/cancel", expect=200)
        assert jobs.run()[1]["status"] == "done"
        jobs.administration.post("/exports", {"kind": "badges"}, expect=409)
        # The rows of the two exports that were not cancelled count until they expire.
        expire_rows(jobs.organization)
        assert jobs.get(second_path)["status"] == "expired"
        assert jobs.run()[1]["status"] == "done"


@pytest.mark.slow
def test_an_export_fails_when_its_rows_would_exceed_the_maximum(settings, organization, size_of_rows, monkeypatch):
    monkeypatch.setattr(write, "ROWS_IN_PART", 1)
    limit = 2 * size_of_rows - 1
    with running_api(replace(settings, export_stored_bytes=limit)) as api:
        jobs, shop = limited_jobs(api, organization), Shop(organization)
        first_path, _ = jobs.run()
        path, export = jobs.run()
        # Its first part fits, its second does not.
        assert (export["status"], export["parts"], export["rows"]) == ("failed", 1, 1)
        assert export["error"] == (
            f"The rows of the organization's exports would have more than {limit} bytes, the maximum. Remove the rows"
            " of other exports by cancelExport, or select fewer rows by filters."
        )
        first_id = jobs.get(first_path)["exportId"]
        parts = shop.rows("export_parts", "export_id, part_number", order="part_number")
        assert [tuple(row) for row in parts] == [(first_id, 1), (first_id, 2)]
        assert jobs.part(path, expect=409).json["detail"] == "The export is failed."
        # The rows of the failed export do not count any more.
        jobs.administration.post(f"{first_path}/cancel", expect=200)
        assert jobs.run()[1]["status"] == "done"


@pytest.mark.parametrize("kind", ["badges", "audience-members"])
def test_an_export_continues_after_a_page_of_an_erased_member(organization, monkeypatch, kind):
    create_referenced_records(organization)
    Imports(organization).run("\n".join(ROWS_OF[kind]), kind=kind)
    member_id = organization.integration.get("/members/ana")["loyaltyMember"]["memberId"]
    organization.administration.delete(f"/members/{member_id}", expect=200)
    # The page with the row of ana is empty, and does not end the export.
    monkeypatch.setattr(export_rows, "ROWS_AT_ONCE", 1)
    assert member_ids_of(exported_lines(organization, kind)) == ["ben"]
