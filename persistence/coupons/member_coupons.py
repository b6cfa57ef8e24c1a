"""Lists and sums of members' coupons."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Connection, Select, Text, case, cast, func, literal_column, or_, select

from domain.coupons.books import CouponBook
from domain.members import Member
from persistence.paging import Page, Paged, ordering
from persistence.rows import columns_of
from persistence.tables.coupon_usages import coupon_lots as lots
from persistence.tables.coupon_usages import member_coupons as table
from persistence.tables.coupons import coupon_books, coupons

ORDER = {
    "couponBookId": table.c.coupon_book_id,
    "couponId": table.c.coupon_id,
    "code": coupons.c.code,
    "amountAssigned": table.c.amount_assigned,
    "amountUsed": table.c.amount_used,
    "createdAt": table.c.created_at,
    "updatedAt": table.c.updated_at,
}

_BOOK_COLUMNS = columns_of(coupon_books, CouponBook)
_JOINED = table.join(
    coupons,
    (coupons.c.organization_id == table.c.organization_id) & (coupons.c.coupon_id == table.c.coupon_id),
).join(
    coupon_books,
    (coupon_books.c.organization_id == table.c.organization_id)
    & (coupon_books.c.coupon_book_id == table.c.coupon_book_id),
)


@dataclass(frozen=True, slots=True)
class MemberCouponEntry:
    """A member's amounts of a coupon, with its code and book.

    `expired_at` and `custom_attributes` are those of the lot that is used next; if all the rest has expired, of the lot
    that expired last, and if nothing is left, of the last lot.
    """

    coupon_book_id: int
    coupon_id: int
    code: str | None
    amount_assigned: Decimal
    amount_used: Decimal
    custom_attributes: dict[str, Any]
    expired_at: datetime | None
    created_at: datetime
    updated_at: datetime
    coupon_book: CouponBook


@dataclass(frozen=True, slots=True)
class BookTags:
    """Tags of coupon books: `every` of these, and `some` of those; None leaves out a condition."""

    every: Collection[str] | None = None
    some: Collection[str] | None = None


NO_TAGS = BookTags()


@dataclass(frozen=True, slots=True)
class MemberCouponFilter:
    """Filters of a list of members' coupons; None leaves out a condition."""

    not_used_only: bool = False
    tags: BookTags = NO_TAGS
    code: str | None = None
    coupon_id: int | None = None
    coupon_book_key: str | None = None
    coupon_book_id: int | None = None
    loyalty_program_id: int | None = None


def find_page(
    db: Connection, member: Member, page: Page, filters: MemberCouponFilter, at: datetime
) -> Paged[MemberCouponEntry]:
    """A page of the member's coupons at `at`, used up or not, without those reversed entirely."""
    conditions = [*_of_member(member), *_conditions(filters, at)]
    order = ordering(page.order, {**ORDER, "expiredAt": expiry_of_member(at)}, table.c.member_coupon_id)
    # The page is determined first, and only its coupons' lots are read.
    ids = select(table.c.member_coupon_id).select_from(_JOINED).where(*conditions).order_by(*order)
    on_page = ids.limit(page.limit).offset(page.page * page.limit).subquery()
    columns = (
        table.c.coupon_book_id,
        table.c.coupon_id,
        coupons.c.code,
        table.c.amount_assigned,
        table.c.amount_used,
        _of_next_lot("custom_attributes", at),
        expiry_of_member(at),
        table.c.created_at,
        table.c.updated_at,
    )
    joined = _JOINED.join(on_page, on_page.c.member_coupon_id == table.c.member_coupon_id)
    statement = select(*columns, *_BOOK_COLUMNS).select_from(joined).where(*_of_member(member)).order_by(*order)
    rows = db.execute(statement).all()
    if len(rows) < page.limit and (rows or page.page == 0):
        total = page.page * page.limit + len(rows)
    else:
        total = db.execute(select(func.count()).select_from(_JOINED).where(*conditions)).scalar_one()
    count = len(columns)
    entries = [MemberCouponEntry(*(*row[:count], CouponBook(*row[count:]))) for row in rows]
    return Paged(total, page.page, page.limit, entries)


def expiry_of_member(at: datetime) -> ColumnElement[Any]:
    """When a member's coupon expires next, or has expired at last."""
    return _of_next_lot("expired_at", at)


# In the order of the indexes of available amounts.
_lot_expiry: ColumnElement[Any] = func.coalesce(lots.c.expired_at, literal_column("'infinity'::timestamptz"))


def _of_next_lot(name: str, at: datetime) -> ColumnElement[Any]:
    """A column of the lot that is used next, else of the one that expired last, else of the last one."""
    left = select(lots.c[name]).where(*_same_coupon(), lots.c.amount > lots.c.amount_used)
    usable, expired = left.where(_lot_expiry > at), left.where(_lot_expiry <= at)
    age = lots.c.created_at, lots.c.coupon_lot_id
    return case(
        (usable.exists(), usable.order_by(_lot_expiry, *age).limit(1).scalar_subquery()),
        (expired.exists(), expired.order_by(_lot_expiry.desc(), *age).limit(1).scalar_subquery()),
        else_=table.c[name],
    ).label(name)


def _same_coupon() -> tuple[ColumnElement[bool], ...]:
    return (
        lots.c.organization_id == table.c.organization_id,
        lots.c.member_id == table.c.member_id,
        lots.c.coupon_id == table.c.coupon_id,
    )


def usable_lots(organization_id: Any, at: datetime) -> Select[Any]:
    """The lots of the organization with an amount that can be used at `at`."""
    return select(lots.c.coupon_lot_id).where(
        lots.c.organization_id == organization_id,
        lots.c.amount > lots.c.amount_used,
        _lot_expiry > at,
    )


def totals(
    db: Connection,
    member: Member,
    loyalty_program_id: int,
    tags: BookTags,
    valid_from: datetime | None,
    valid_to: datetime | None,
) -> tuple[Decimal, Decimal]:
    """The member's used and assigned totals of a program's books whose validity overlaps the given span."""
    conditions = [*_of_member(member), *tagged(tags), _of_program(loyalty_program_id)]
    if valid_from is not None:
        conditions.append(or_(coupon_books.c.valid_to_date.is_(None), coupon_books.c.valid_to_date >= valid_from))
    if valid_to is not None:
        conditions.append(or_(coupon_books.c.valid_from_date.is_(None), coupon_books.c.valid_from_date <= valid_to))
    used, assigned = func.sum(table.c.amount_used), func.sum(table.c.amount_assigned)
    statement = select(func.coalesce(used, 0), func.coalesce(assigned, 0)).select_from(_JOINED).where(*conditions)
    row = db.execute(statement).one()
    return row[0], row[1]


def _of_member(member: Member) -> list[ColumnElement[bool]]:
    return [
        table.c.organization_id == member.organization_id,
        table.c.member_id == member.member_id,
        or_(table.c.amount_assigned != 0, table.c.amount_used != 0),
    ]


def _of_program(loyalty_program_id: int) -> ColumnElement[bool]:
    """The condition for books of the program, and of books without a program, which are for all."""
    program = coupon_books.c.loyalty_program_id
    return or_(program.is_(None), program == loyalty_program_id)


def _conditions(filters: MemberCouponFilter, at: datetime) -> list[ColumnElement[bool]]:
    equal = {
        coupons.c.code: filters.code,
        table.c.coupon_id: filters.coupon_id,
        coupon_books.c.coupon_book_key: filters.coupon_book_key,
        table.c.coupon_book_id: filters.coupon_book_id,
    }
    conditions: list[ColumnElement[bool]] = [column == value for column, value in equal.items() if value is not None]
    if filters.not_used_only:
        conditions.append(usable_lots(table.c.organization_id, at).where(*_same_coupon()).exists())
    if filters.loyalty_program_id is not None:
        conditions.append(_of_program(filters.loyalty_program_id))
    return [*conditions, *tagged(filters.tags)]


def tagged(tags: BookTags) -> list[ColumnElement[bool]]:
    """The condition that the coupon book in the statement has these tags."""
    conditions: list[ColumnElement[bool]] = []
    if tags.every is not None:
        conditions.append(coupon_books.c.tags.bool_op("@>")(cast(list(tags.every), ARRAY(Text))))
    if tags.some is not None:
        conditions.append(coupon_books.c.tags.bool_op("&&")(cast(list(tags.some), ARRAY(Text))))
    return conditions
