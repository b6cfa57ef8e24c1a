"""Lists of coupons across books."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, or_, select

from domain.coupons.books import Coupon, CouponBook
from domain.members import Member
from persistence.counts import RowCount, count_rows
from persistence.coupons.codes import COUPONS
from persistence.coupons.member_coupons import expiry_of_member
from persistence.filters import is_same
from persistence.keysets import Section
from persistence.paging import Page, Paged, page_of, sorting_of
from persistence.rows import AnyRow, AnySelect
from persistence.tables.coupons import coupon_books, member_coupons
from persistence.tables.coupons import coupons as table


@dataclass(frozen=True, slots=True)
class CouponFilter:
    """Filters of a list of coupons; a filter that is None is not applied.

    With a `member`, the list has the coupons that are assigned to the member, and `expired` depends on the expiry of
    the member's lots instead of the coupon's own.
    """

    code: str | None = None
    book: CouponBook | None = None
    member: Member | None = None
    expired: bool | None = None

    @property
    def is_plain(self) -> bool:
        """True without any filter: all coupons of the organization."""
        return self == CouponFilter()


def find_page(db: Connection, organization_id: int, page: Page, filters: CouponFilter, at: datetime) -> Paged[Coupon]:
    """A page of the coupons that match all filters at the moment `at`."""
    source, conditions = _source(organization_id, filters, at)
    sorting = sorting_of(page.order, COUPONS.order_columns, COUPONS.id)
    ids: AnySelect = select(table.c.coupon_id).select_from(source).where(*conditions)

    def read(section: Section) -> Sequence[AnyRow]:
        # The page is found by an index-only scan; then only its coupons are read.
        on_page = section.of(ids).subquery()
        statement = (
            select(*COUPONS.columns, *sorting.columns)
            .join(on_page, on_page.c.coupon_id == table.c.coupon_id)
            .where(table.c.organization_id == organization_id)
            .order_by(*section.ordering)
        )
        return db.execute(statement).all()

    def count() -> RowCount:
        if filters.is_plain:
            return _count_all(db, organization_id)
        return count_rows(db, source, conditions)

    return page_of(Coupon, page, sorting, read, count)


def _source(organization_id: int, filters: CouponFilter, at: datetime) -> tuple[Any, list[Any]]:
    """The tables and the conditions of a list."""
    source: Any = table
    conditions: list[Any] = [table.c.organization_id == organization_id]
    expiry: Any = table.c.expired_at
    if filters.code is not None:
        conditions.append(table.c.code == filters.code)
    if filters.book is not None:
        conditions.append(table.c.coupon_book_id == filters.book.coupon_book_id)
    if filters.member is not None:
        holders = member_coupons
        source = table.join(holders, is_same(holders, table, "coupon_id"))
        conditions += [holders.c.member_id == filters.member.member_id, holders.c.amount_assigned > 0]
        expiry = expiry_of_member(at)
    if filters.expired is True:
        conditions.append(expiry <= at)
    if filters.expired is False:
        conditions.append(or_(expiry.is_(None), expiry > at))
    return source, conditions


def _count_all(db: Connection, organization_id: int) -> RowCount:
    """The number of all coupons of the organization, from the counts in its books."""
    count = func.coalesce(func.sum(coupon_books.c.coupon_count), 0)
    statement = select(count).where(coupon_books.c.organization_id == organization_id)
    return RowCount(int(db.execute(statement).scalar_one()))
