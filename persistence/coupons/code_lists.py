"""Lists of coupons across books."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, any_, func, or_, select, true

from domain.coupons.books import Coupon, CouponBook
from domain.members import Member
from persistence.counts import RowCount, count_rows
from persistence.coupons.codes import COUPONS
from persistence.coupons.member_coupons import expiry_of_member
from persistence.filters import is_same, lateral_row
from persistence.keysets import Section
from persistence.paging import Page, Paged, page_of, paged_columns, sorting_of
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
    def is_empty(self) -> bool:
        """True if no filter is set, so that the list has all coupons of the organization."""
        return self == CouponFilter()


# The coupon of a row of `member_coupons`.
_COUPON = lateral_row(table, (member_coupons, "coupon_id"))


def find_page(db: Connection, organization_id: int, page: Page, filters: CouponFilter, at: datetime) -> Paged[Coupon]:
    """A page of the coupons that match all filters at the moment `at`."""
    if filters.member is not None:
        return _find_page_of_member(db, filters.member, page, filters, at)
    conditions = [table.c.organization_id == organization_id, *_conditions(filters, table, table.c.expired_at, at)]
    sorting = sorting_of(page.order, COUPONS.order_columns, COUPONS.id)
    ids: AnySelect = select(table.c.coupon_id).where(*conditions)

    def read(section: Section) -> Sequence[AnyRow]:
        # The page is found by an index-only scan; then only its coupons are read.
        on_page = section.restrict(ids).correlate(None).scalar_subquery()
        statement = (
            select(*COUPONS.columns, *sorting.columns)
            .where(table.c.organization_id == organization_id, table.c.coupon_id == any_(func.array(on_page)))
            .order_by(*section.ordering)
        )
        return db.execute(statement).all()

    def count() -> RowCount:
        if filters.is_empty:
            return _count_all(db, organization_id)
        return count_rows(db, table, conditions)

    return page_of(Coupon, page, sorting, read, count)


def _find_page_of_member(
    db: Connection, member: Member, page: Page, filters: CouponFilter, at: datetime
) -> Paged[Coupon]:
    """A page of the coupons that are assigned to the member and match the other filters at the moment `at`."""
    conditions = [
        is_same(member_coupons, member, "member_id"),
        member_coupons.c.amount_assigned > 0,
        *_conditions(filters, _COUPON, expiry_of_member(at), at),
    ]
    order_columns = {name: _COUPON.c[column.name] for name, column in COUPONS.order_columns.items()}
    sorting = sorting_of(page.order, order_columns, _COUPON.c.coupon_id)
    columns = [_COUPON.c[column.name] for column in COUPONS.columns]
    joined, parameters = member_coupons.join(_COUPON, true()), {"organization_id": member.organization_id}
    return paged_columns(db, Coupon, columns, joined, conditions, page, sorting, parameters=parameters)


def _conditions(filters: CouponFilter, coupons: Any, expiry: Any, at: datetime) -> list[Any]:
    """The conditions of the filters, except `member`, on the rows of `coupons` and the moment `expiry`."""
    conditions: list[Any] = []
    if filters.code is not None:
        conditions.append(coupons.c.code == filters.code)
    if filters.book is not None:
        conditions.append(coupons.c.coupon_book_id == filters.book.coupon_book_id)
    if filters.expired is True:
        conditions.append(expiry <= at)
    if filters.expired is False:
        conditions.append(or_(expiry.is_(None), expiry > at))
    return conditions


def _count_all(db: Connection, organization_id: int) -> RowCount:
    """Count all coupons of the organization by the counts in its books."""
    count = func.coalesce(func.sum(coupon_books.c.coupon_count), 0)
    statement = select(count).where(coupon_books.c.organization_id == organization_id)
    return RowCount(int(db.execute(statement).scalar_one()))
