"""The keys of exports: whatever is imported again, members do not get points, coupons or badges twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from handlers.services.exports.rows import ROWS, csv_header, csv_row
from handlers.services.organizations.reset import reset_organization
from persistence import transactions
from persistence.exported_rows import ExportRange
from tests.builders.coupons import CouponBooks
from tests.builders.exports import exported_lines
from tests.builders.imports import Imports, status_read_done_failed
from tests.builders.test_clocks import Clock
from tests.builders.tracking import Shop

KINDS = ("balances", "coupons", "badges")
UNTIL = "2099-12-31T00:00:00Z"
# What ana and ben have in the source: points of two accounts, those of `stars` with and without expiry.
HOLDINGS = {
    "balances": "loyaltyMemberId,amount,account,expiresAt\nana,340,,\n"
    f"ana,1.25,stars,{UNTIL}\nana,2.5,stars,\nben,7,,\n",
    "coupons": "loyaltyMemberId,couponBook,code,amount\nana,Lungo,A-2,3\nana,Lungo,A-3,1\nben,Lungo,A-1,1\n",
    "badges": "loyaltyMemberId,badge,amount\nana,Regular,2\nben,Regular,1\n",
}
ANA = {"points": 340, "stars": Decimal("3.75"), "coupons": 4, "badges": 2}
BEN = {"points": 7, "stars": 0, "coupons": 1, "badges": 1}


def create_target(api):
    """An organization with the configuration and the members of the source, who have nothing."""
    organization = api.organization()
    Shop(organization).account(pointTrackingEnabled=True, alias="stars", decimals=2)
    CouponBooks(organization).make("A-1", "A-2", "A-3", name="Lungo")
    organization.integration.post("/badges", {"name": "Regular", "maxAmount": 9, "active": True})
    for name in ("ana", "ben"):
        organization.member(name)
    return organization


@pytest.fixture
def source(api):
    """An organization in which Ana and Ben have the amounts of `ANA` and `BEN`."""
    organization = create_target(api)
    for kind, content in HOLDINGS.items():
        import_all(organization, content, kind)
    return organization


@pytest.fixture
def target(api):
    return create_target(api)


def import_all(organization, content, kind):
    """Import a CSV file, of which no row may fail."""
    _, _, _, failed_count = import_into(organization, content, kind, file_format="csv")
    assert failed_count == 0


def import_into(organization, content, kind, **options):
    """Import a file; return (status, rows read, rows done, rows failed)."""
    return status_read_done_failed(
        Imports(organization).run(content, kind=kind, **{"file_format": "ndjson", **options})
    )


def failures_of(organization, content, kind, **options):
    """Import a file; return (line, column, reason) of the rows that failed."""
    imports = Imports(organization)
    job = imports.run(content, kind=kind, **{"file_format": "ndjson", **options})
    assert job["rowsDone"] + job["rowsFailed"] == job["rowsRead"]
    return imports.errors(job)


def reasons_of(organization, content, kind, **options):
    """Import a file; return the reasons of the rows that failed, whose faults must be in systemUniqueKey."""
    failures = failures_of(organization, content, kind, **options)
    assert all(column == "systemUniqueKey" for _line, column, _reason in failures)
    return [reason for _line, _column, reason in failures]


def move(source, *targets):
    """Import the exports of the source into the targets; every row is done."""
    for kind in KINDS:
        lines = exported_lines(source, kind)
        for target in targets:
            assert import_into(target, "".join(lines), kind) == ("done", len(lines), len(lines), 0)


def holdings_of(organization, name):
    """How many points, stars, coupons and badges a member has."""
    shop = Shop(organization)
    balances = {row.alias: shop.balance(name, row.ledger_account_id) for row in shop.rows("ledger_accounts")}

    def amount(kind):
        rows = [json.loads(line) for line in exported_lines(organization, kind)]
        return sum(row["amount"] for row in rows if row["loyaltyMemberId"] == name)

    return {
        "points": Decimal(balances["points"]),
        "stars": Decimal(balances["stars"]),
        "coupons": amount("coupons"),
        "badges": amount("badges"),
    }


def csv_of(organization, kind):
    """The export of a kind as CSV."""
    with organization.api.engine.connect() as db:
        return csv_header(kind) + "".join(csv_row(kind, row) for row in ROWS[kind](db, ExportRange(organization.id)))


@pytest.mark.slow
def test_a_second_import_of_an_export_changes_nothing(source, target):
    move(source, target)
    assert (holdings_of(target, "ana"), holdings_of(target, "ben")) == (ANA, BEN)
    for kind in KINDS:
        lines = exported_lines(source, kind)
        # In the mode `upsert` repeated rows are done, also those of the other format.
        assert import_into(target, "".join(lines), kind, mode="upsert") == ("done", len(lines), len(lines), 0)
        csv_counts = import_into(target, csv_of(source, kind), kind, mode="upsert", file_format="csv")
        assert csv_counts == ("done", len(lines), len(lines), 0)
        # In the mode `create` they fail.
        assert import_into(target, "".join(lines), kind) == ("done", len(lines), 0, len(lines))
    assert (holdings_of(target, "ana"), holdings_of(target, "ben")) == (ANA, BEN)
    for organization in (source, target):
        Shop(organization).check_ledger()


def test_failed_rows_are_imported_by_a_second_import(source, target):
    lines = exported_lines(source, "balances")
    renamed_lines = "".join(lines).replace('"ben"', '"bob"')
    # The target has no member bob, so his 2 rows fail.
    assert import_into(target, renamed_lines, "balances") == ("done", 7, 5, 2)
    assert import_into(target, "".join(lines), "balances", mode="upsert") == ("done", 7, 7, 0)
    assert (holdings_of(target, "ana")["points"], holdings_of(target, "ben")["points"]) == (340, 7)


@pytest.mark.slow
def test_only_the_new_records_of_a_newer_export_are_imported(source, target):
    move(source, target)
    changes = {
        "balances": "loyaltyMemberId,amount,account\nana,60,\nben,5,stars\n",
        "coupons": "loyaltyMemberId,couponBook,code,amount\nben,Lungo,A-1,2\n",
        "badges": "loyaltyMemberId,badge,amount\nana,Regular,1\n",
    }
    for kind, content in changes.items():
        import_all(source, content, kind)
    first_key = json.loads(exported_lines(target, "balances")[0])["systemUniqueKey"]
    badge_key = json.loads(exported_lines(target, "badges")[0])["systemUniqueKey"]
    # The 2 rows of ana's points fail, and her 3 rows of stars are repeated, like the 2 of ben's points.
    reason = f"Another export of the balance was imported, with the systemUniqueKey {first_key}."
    reasons = reasons_of(target, "".join(exported_lines(source, "balances")), "balances", mode="upsert")
    assert reasons == [f"{reason} The balance has changed between the exports."] * 2
    assert reasons_of(target, "".join(exported_lines(source, "coupons")), "coupons", mode="upsert") == []
    failures = failures_of(target, "".join(exported_lines(source, "badges")), "badges", mode="upsert")
    assert failures == [(1, "systemUniqueKey", f"The key {badge_key} was used for another request.")]
    assert holdings_of(source, "ana") == {**ANA, "points": 340 + 60, "badges": 2 + 1}
    assert holdings_of(target, "ana") == ANA
    assert holdings_of(source, "ben") == {**BEN, "stars": 5, "coupons": 1 + 2}
    assert holdings_of(target, "ben") == holdings_of(source, "ben")


def test_the_row_of_a_coupon_that_was_used_between_two_exports_fails(source, target):
    move(source, target)
    [book] = source.integration.get("/coupon-books")["results"]
    source.integration.post(f"/members/ana/coupon-books/{book['couponBookKey']}/use", {"code": "A-2"}, expect=200)
    [reason] = reasons_of(target, "".join(exported_lines(source, "coupons")), "coupons", mode="upsert")
    assert reason.endswith(" was used for another request.")
    assert holdings_of(source, "ana") == {**ANA, "coupons": 4 - 1}
    assert holdings_of(target, "ana") == ANA


@pytest.mark.parametrize("is_tracked", [True, False])
def test_points_that_waited_at_the_first_export_are_not_imported_again(api, is_tracked):
    source, target = Clock.new(api), Clock.new(api)
    for clock in (source, target):
        shop = Shop(clock.organization)
        shop.account(pointTrackingEnabled=is_tracked, alias="stars")
        shop.member(loyalty_member_id="ana")
    content = "loyaltyMemberId,amount,account,availableAt\nana,30,stars,2026-03-15T09:00:00Z\n"
    import_all(source.organization, content, "balances")

    def lines_at(moment):
        """The balances of the source, as an export at this moment has them."""
        return "".join(exported_lines(source.organization, "balances", now=datetime.fromisoformat(moment)))

    assert import_into(target.organization, lines_at("2026-03-02T00:00:00Z"), "balances") == ("done", 1, 1, 0)
    for clock in (source, target):
        clock.advance("2026-04-01T00:00:00Z")
    # Now the source has a row of points and a row of qualifying points, with the same account and other keys.
    assert len(reasons_of(target.organization, lines_at("2026-04-01T00:00:00Z"), "balances", mode="upsert")) == 2
    [(stars,)] = Shop(target.organization).rows("ledger_balances", "sum(current_balance)")
    assert stars == 30
    Shop(target.organization).check_ledger()


def test_an_organization_refuses_its_own_export(source):
    for kind in KINDS:
        lines = exported_lines(source, kind)
        reasons = [
            f"The systemUniqueKey {json.loads(line)['systemUniqueKey']} names a record of this organization: the row"
            " was exported from here."
            for line in lines
        ]
        for mode in ("create", "upsert"):
            assert reasons_of(source, "".join(lines), kind, mode=mode) == reasons
    assert (holdings_of(source, "ana"), holdings_of(source, "ben")) == (ANA, BEN)


@pytest.mark.slow
def test_an_export_of_moved_records_has_the_keys_of_the_first_export(source, target, api):
    third_organization = create_target(api)
    move(source, target)
    for kind in KINDS:
        assert exported_lines(target, kind) == exported_lines(source, kind)
    # Records that have come back are refused, even if they have changed meanwhile.
    Shop(target).give("ana", 60)
    for kind in KINDS:
        lines = exported_lines(target, kind)
        assert import_into(source, "".join(lines), kind, mode="upsert") == ("done", len(lines), 0, len(lines))
    assert holdings_of(source, "ana") == ANA
    # They are imported elsewhere, but only once, whichever of the two organizations they come from.
    move(target, third_organization)
    for kind in KINDS:
        _, _, _, failed_count = import_into(
            third_organization, "".join(exported_lines(source, kind)), kind, mode="upsert"
        )
        # The two rows of Ana's points, which have changed between the exports.
        assert failed_count == (2 if kind == "balances" else 0)
    assert holdings_of(third_organization, "ana") == {**ANA, "points": 340 + 60}
    assert holdings_of(third_organization, "ben") == BEN


def test_records_of_two_organizations_add_up(source, target, api):
    # Like the source, but Ana has 3 coupons instead of 4.
    second_source = create_target(api)
    contents = {**HOLDINGS, "coupons": HOLDINGS["coupons"].replace("ana,Lungo,A-3,1\n", "")}
    for kind, content in contents.items():
        import_all(second_source, content, kind)
    move(source, target)
    move(second_source, target)
    assert holdings_of(target, "ana") == {
        "points": 2 * 340,
        "stars": 2 * Decimal("3.75"),
        "coupons": 4 + 3,
        "badges": 2 * 2,
    }
    assert holdings_of(target, "ben") == {"points": 2 * 7, "stars": 0, "coupons": 2 * 1, "badges": 2 * 1}


def test_the_export_of_a_reset_organization_can_be_imported_into_it_again(api):
    # Only test organizations are reset.
    organization = api.organization(environment="test")
    organization.member("ana")
    Shop(organization).give("ana", 340)
    lines = exported_lines(organization, "balances")
    assert len(reasons_of(organization, "".join(lines), "balances")) == 2
    transactions.run(api.engine, lambda db: reset_organization(db, organization.id, datetime.now(UTC)))
    organization.member("ana")
    assert import_into(organization, "".join(lines), "balances") == ("done", 2, 2, 0)
    assert [row.current_balance for row in Shop(organization).rows("ledger_balances")] == [340]


def test_a_row_can_be_imported_for_another_member(source):
    lines = "".join(exported_lines(source, "balances")).replace('"ben"', '"bob"')
    source.member("bob")
    # The 2 rows of Ben's points are done for Bob. The 5 rows of Ana have the keys of records of the source.
    assert import_into(source, lines, "balances") == ("done", 7, 2, 5)
    assert Shop(source).balance("bob") == 7
    bob_keys = {json.loads(line)["systemUniqueKey"] for line in exported_lines(source, "balances") if '"bob"' in line}
    assert bob_keys.isdisjoint(json.loads(line)["systemUniqueKey"] for line in lines.splitlines())
