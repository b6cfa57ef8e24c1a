"""The cost of lists of coupons where there are many: `python -m bench.coupon_lists`.

Two organizations in one database have 10,000 and 1,000,000 coupons in one book. Each list is read in both in turn.
Prints a table for `docs/performance.md`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, text

from bench.databases import new_database
from bench.turns import measure_in_turns
from domain.coupons.books import CouponBook
from domain.members import Member
from handlers.services.organizations.create import create_organization
from persistence import members, transactions
from persistence.coupons import code_lists, codes, member_books
from persistence.coupons.books import BOOKS
from persistence.coupons.code_lists import CouponFilter
from persistence.engine import autocommit
from persistence.paging import Page

SMALL, LARGE, BOOK_COUNT = 10_000, 1_000_000, 1_000
PAGE, ROUNDS = 25, 15
NOW = datetime.now(UTC)

_FILL = """
INSERT INTO coupons (organization_id, coupon_book_id, position, code, total_assigned, expired_at, created_at,
    updated_at)
SELECT :organization_id, :coupon_book_id, n, 'CODE-' || n, n % 2, CASE WHEN n % 100 = 0 THEN now() END, now(), now()
FROM generate_series(1, :count) AS n
"""
_HOLD = """
INSERT INTO member_coupons (organization_id, member_id, coupon_id, coupon_book_id, amount_assigned, amount_used,
    created_at, updated_at)
SELECT organization_id, :member_id, coupon_id, coupon_book_id, 1, 0, now(), now() FROM coupons
WHERE organization_id = :organization_id AND position % 1000 = 1
"""
_ADD_LOTS = """
WITH assigned AS (
    INSERT INTO coupon_usages (organization_id, coupon_usage_key, coupon_id, coupon_book_id, member_id,
        system_unique_key, amount_used, amount_assigned, updated_total_usages, updated_total_assigned, created_at,
        updated_at)
    SELECT organization_id, gen_random_uuid(), coupon_id, coupon_book_id, member_id, gen_random_uuid()::text, 0, 1, 0,
        1, now(), now() FROM member_coupons
    WHERE organization_id = :organization_id AND member_id = :member_id RETURNING *
)
INSERT INTO coupon_lots (organization_id, coupon_lot_id, member_id, coupon_id, coupon_book_id, amount, amount_used,
    created_at, updated_at)
SELECT organization_id, coupon_usage_id, member_id, coupon_id, coupon_book_id, 1, 0, now(), now() FROM assigned
"""


@dataclass(frozen=True)
class Tenant:
    """An organization whose first book holds all its coupons."""

    book: CouponBook
    member: Member
    count: int

    @property
    def id(self) -> int:
        return self.book.organization_id


def _tenant(db: Connection, count: int) -> Tenant:
    """Create an organization with books, one of which has `count` codes, and a member who holds coupons of it."""
    created = create_organization(db, name="Corner Coffee", now=NOW)
    organization_id = created.organization_id
    plain = {"publishing_status": "published", "type": "list"}
    books = [
        BOOKS.add(
            db,
            organization_id,
            {"coupon_book_key": str(uuid.uuid4()), "name": f"Book {n}", "tags": [f"t{n % 9}"], **plain},
            NOW,
        )
        for n in range(BOOK_COUNT)
    ]
    book = BOOKS.store(db, books[0], {"coupon_count": count}, NOW)
    address = {"organization_id": organization_id, "coupon_book_id": book.coupon_book_id}
    db.execute(text("SET LOCAL statement_timeout = 0"))
    db.execute(text(_FILL), {**address, "count": count})
    ana = {
        "loyalty_member_id": "ana",
        "active": True,
        "wallet_key": str(uuid.uuid4()),
        **{name: {} for name in ("profile", "custom_attributes", "notifications", "on_chain")},
    }
    [(member, _)] = members.add_members(
        db, organization_id, [ana], ledger_id=created.ledger_id, loyalty_program_id=None, now=NOW
    )
    db.execute(text(_HOLD), {"organization_id": organization_id, "member_id": member.member_id})
    db.execute(text(_ADD_LOTS), {"organization_id": organization_id, "member_id": member.member_id})
    return Tenant(book, member, count)


def _lists() -> dict[str, Callable[[Connection, Tenant], Any]]:
    """The lists by name; the pages are the first, one in the middle and the last."""

    def of_book(share: float, order: str | None = None) -> Callable[[Connection, Tenant], Any]:
        return lambda db, t: codes.find_page_of_book(db, t.book, Page(int(t.count / PAGE * share), PAGE, order))

    def of_all(share: float, **criteria: Any) -> Callable[[Connection, Tenant], Any]:
        def ask(db: Connection, t: Tenant) -> Any:
            page = Page(int(t.count / PAGE * share), PAGE)
            return code_lists.find_page(db, t.id, page, CouponFilter(**criteria), NOW)

        return ask

    last = 1 - 1e-9
    return {
        "codes of a book, first page": of_book(0),
        "codes of a book, page in the middle": of_book(0.5),
        "codes of a book, last page": of_book(last),
        "codes of a book by code, first page": of_book(0, "code"),
        "codes of a book by code, last page": of_book(last, "code"),
        "all coupons, first page": of_all(0),
        "all coupons, page in the middle": of_all(0.5),
        "all coupons, last page": of_all(last),
        "coupons of a code": of_all(0, code="CODE-77"),
        "expired coupons, first page": of_all(0, expired=True),
        "coupons of a member (1 in 1,000)": lambda db, t: code_lists.find_page(
            db, t.id, Page(0, PAGE), CouponFilter(member=t.member), NOW
        ),
        "books with a tag, searched": lambda db, t: BOOKS.find_page(
            db, t.id, {"limit": PAGE, "tagsAny": ["t3"], "search": "ook 1"}
        ),
        "books of which something is left": lambda db, t: member_books.find_books_with_free_codes(
            db, t.id, [t.book.coupon_book_id], NOW
        ),
    }


def main() -> None:
    """Fill the two organizations, read the lists, and print the table."""
    with new_database(threads=2) as (engine, _):
        tenants = [transactions.run(engine, lambda db, n=n: _tenant(db, n)) for n in (SMALL, LARGE)]
        with autocommit(engine).connect() as db:
            db.execute(text("SET statement_timeout = 0"))
            db.execute(text("VACUUM ANALYZE"))
        print(f"| list | {SMALL:,} coupons | {LARGE:,} coupons | ratio |\n|---|---|---|---|")
        for name, ask in _lists().items():
            with autocommit(engine).connect() as db:
                works = {tenant.count: partial(ask, db, tenant) for tenant in tenants}
                times = measure_in_turns(works, ROUNDS)
            small, large = times[SMALL], times[LARGE]
            print(f"| {name} | {small:.1f} ms | {large:.1f} ms | {large / small:.1f} |", flush=True)


if __name__ == "__main__":
    main()
