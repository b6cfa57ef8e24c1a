"""Calls about one member read only its rows, however many others exist and whatever statistics the planner has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from persistence.engine import autocommit
from persistence.tables import metadata
from tests.builders.campaigns import mint
from tests.builders.coupons import CouponBooks
from tests.builders.imports import Imports
from tests.builders.member_calls import ADMINISTRATION_READS, READS, calls_about
from tests.builders.missions import member_id_of
from tests.builders.statements import rows_of_plans, rows_read_to_commit
from tests.builders.tracking import GENERIC, Shop, running

MEMBERS = 3_000
# Each of the large tables has at least one row for each member.
MAX_ROWS_OF_A_CALL = MEMBERS // 3
LARGE_TABLES = (
    *("members", "wallets", "member_tiers", "ledger_transactions", "ledger_entries", "ledger_lots", "ledger_balances"),
    *("report_changes", "events", "coupons", "member_coupons", "coupon_lots", "coupon_usages", "member_badges"),
)

# Columns whose values many rows share. With many small tenants the planner expects few rows for a value.
SHARED_COLUMNS = {
    "organization_id",
    "ledger_account_id",
    "coupon_book_id",
    "badge_id",
    "loyalty_tier_id",
    "event_type_id",
}


@dataclass(frozen=True)
class LargeShop:
    """A shop whose 3,000 members, from m-0, have points, coupons and badges."""

    shop: Shop
    book: Mapping[str, Any]
    list_book: Mapping[str, Any]
    badge: Mapping[str, Any]


@pytest.fixture(scope="module")
def large_shop(api):
    organization = api.organization()
    shop = Shop(organization)
    shop.campaign(running(mint(5)), eventType=GENERIC)
    book = CouponBooks(organization).make(name="Flat white", type="codeless")
    list_book = CouponBooks(organization).make(name="Espresso", type="list")
    badge = organization.integration.post("/badges", {"name": "Regular", "maxAmount": 1000, "active": True})["badge"]
    silver = {"name": "Silver", "active": True, "minRequiredPoints": 500, "tierOrder": 2}
    organization.administration.post(f"/loyalty-programs/{organization.defaults.loyalty_program_id}/tiers", silver)
    rows = {
        "members": ["loyaltyMemberId", *(f"m-{n}" for n in range(MEMBERS))],
        "balances": ["loyaltyMemberId,amount", *(f"m-{n},100" for n in range(MEMBERS))],
        "coupons": ["loyaltyMemberId,couponBook,amount", *(f"m-{n},Flat white,3" for n in range(MEMBERS))],
        "coupon-codes": ["couponBook,code", *(f"Espresso,E-{n}" for n in range(MEMBERS))],
        "badges": ["loyaltyMemberId,badge", *(f"m-{n},Regular" for n in range(MEMBERS))],
        "events": ["loyaltyMemberId,eventType", *(f"m-{n},{GENERIC}" for n in range(MEMBERS))],
    }
    for kind, lines in rows.items():
        Imports(organization).run("\n".join(lines), kind=kind)
    return LargeShop(shop, book, list_book, badge)


@pytest.fixture(scope="module")
def calls(large_shop):
    """Calls that change one member, by name."""
    shop = large_shop.shop
    integration, administration = shop.integration, shop.administration
    codeless_path, list_path = (
        f"/members/m-7/coupon-books/{book['couponBookKey']}" for book in (large_shop.book, large_shop.list_book)
    )

    def revert_use():
        integration.post(f"{codeless_path}/assign", {}, expect=200)
        usage = integration.post(f"{codeless_path}/use", {}, expect=200)["couponUsage"]
        administration.post(f"/coupon-usages/{usage['couponUsageId']}/revert", {}, expect=200)

    def use_code():
        code = integration.post(f"{list_path}/assign", {}, expect=200)["couponUsage"]["code"]
        integration.post(f"{list_path}/use", {"code": code}, expect=200)

    return {
        **calls_about(shop, "m-7", large_shop.book, large_shop.badge),
        "use a code": use_code,
        "revert a use": revert_use,
        "enrol": lambda: shop.organization.member(f"newcomer-{uuid4()}"),
    }


CALLS = (
    *("track", "order", "cancel", "mint", "burn", "revert", "assign", "use", "use a code", "revert a use", "badge"),
    *("change", "enrol"),
)


def expect_few_rows(engine, statement: str) -> None:
    """Change by `statement` how many rows the planner expects for a value of a shared column."""
    with autocommit(engine).connect() as db:
        for table in LARGE_TABLES:
            for column in SHARED_COLUMNS & {column.name for column in metadata.tables[table].columns}:
                db.execute(text(f"ALTER TABLE {table} ALTER {column} {statement}"))
        db.execute(text("ANALYZE"))


@pytest.fixture(scope="module", params=["of this organization", "of many small ones"])
def statistics(request, api, large_shop):
    """The statistics that the planner has of the tables, taken when all members are there."""
    if request.param == "of this organization":
        with autocommit(api.engine).connect() as db:
            db.execute(text("ANALYZE"))
        yield
    else:
        expect_few_rows(api.engine, "SET (n_distinct = -0.5)")
        yield
        expect_few_rows(api.engine, "RESET (n_distinct)")


@pytest.mark.undistributed
@pytest.mark.usefixtures("statistics")
@pytest.mark.parametrize("call", CALLS)
def test_a_call_about_a_member_reads_few_rows_of_each_table(api, calls, call):
    # The first call fills the caches of the process.
    calls[call]()
    with rows_read_to_commit(api.engine) as rows_by_table:
        calls[call]()
    assert rows_by_table
    excesses = {table: rows_by_table[table] for table in LARGE_TABLES if rows_by_table[table] > MAX_ROWS_OF_A_CALL}
    assert excesses == {}


@pytest.mark.undistributed
@pytest.mark.usefixtures("statistics")
@pytest.mark.parametrize("path", READS)
def test_an_integration_read_of_one_member_reads_few_rows(api, large_shop, path):
    path = f"/members/m-7{path}".format(**large_shop.badge)
    assert rows_of_plans(api.engine, lambda: large_shop.shop.integration.get(path)) <= MAX_ROWS_OF_A_CALL


@pytest.mark.undistributed
@pytest.mark.usefixtures("statistics")
@pytest.mark.parametrize("path", ADMINISTRATION_READS)
def test_an_administration_read_of_one_member_reads_few_rows(api, large_shop, path):
    shop = large_shop.shop
    program = f"/loyalty-programs/{shop.organization.defaults.loyalty_program_id}"
    path = path.format(memberId=member_id_of(shop, "m-7"), program=program)
    assert rows_of_plans(api.engine, lambda: shop.administration.get(path)) <= MAX_ROWS_OF_A_CALL
