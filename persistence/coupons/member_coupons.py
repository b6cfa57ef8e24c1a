"""Lists and sums of members' coupons."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, any_, case, func, literal_column, or_, select, true

from domain.coupons.books import CouponBook
from domain.members import Member
from persistence.coupons.books import is_of_program_or_none
from persistence.filters import (
    conditions_of,
    equals,
    has_all,
    has_any,
    is_null_or_at_or_after,
    is_null_or_at_or_before,
    is_related,
    is_same,
    is_true_if_asked,
    lateral_row,
)
from persistence.paging import Page, Paged, ordering
from persistence.rows import fields_of
from persistence.tables.coupons import coupon_books, coupons
from persistence.tables.coupons import coupon_lots as lots
from persistence.tables.coupons import member_coupons as table

_SAME_COUPON = is_related(lots, table, "member_id", "coupon_id")
_COUPON, _BOOK = lateral_row(coupons, (table, "coupon_id")), lateral_row(coupon_books, (table, "coupon_book_id"))
_JOINED = table.join(_COUPON, true()).join(_BOOK, true())
_BOOK_COLUMNS = [_BOOK.c[name] for name in fields_of(CouponBook)]

ORDER = {
    "couponBookId": table.c.coupon_book_id,
    "couponId": table.c.coupon_id,
    "code": _COUPON.c.code,
    "amountAssigned": table.c.amount_assigned,
    "amountUsed": table.c.amount_used,
    "createdAt": table.c.created_at,
    "updatedAt": table.c.updated_at,
}
# `+ 0` keeps the planner from reading the coupons of all members in the order of their ids.
_TIE_BREAK: Any = table.c.member_coupon_id + 0
_FILTERS = {
    "couponCode": equals(_COUPON.c.code),
    "couponCodeId": equals(table.c.coupon_id),
    "couponBookKey": equals(_BOOK.c.coupon_book_key),
    "couponBookId": equals(table.c.coupon_book_id),
    # The tags of the coupon book in the statement.
    "couponBookTags": has_all(_BOOK.c.tags),
    "couponBookTagsAny": has_any(_BOOK.c.tags),
}


@dataclass(frozen=True, slots=True)
class MemberCouponEntry:
    """A member's amounts of a coupon, with its code and book.

    `expired_at` and `custom_attributes` are those of the lot that is used next; if all lots with an amount left have
    expired, of the lot that expired last; if no lot has an amount left, of the last lot. `remaining_value` is the value
    that can be used of value coupons, None for other coupons.
    """

    coupon_book_id: int
    coupon_id: int
    code: str | None
    amount_assigned: Decimal
    amount_used: Decimal
    custom_attributes: dict[str, Any]
    expired_at: datetime | None
    remaining_value: Decimal | None
    created_at: datetime
    updated_at: datetime
    coupon_book: CouponBook


def find_page(
    db: Connection, member: Member, query: Mapping[str, Any], loyalty_program_id: int | None, now: datetime
) -> Paged[MemberCouponEntry]:
    """A page of the member's coupons at `now`, also of used coupons, but without entirely reversed ones.

    With a program, the page has only coupons of books of this program or of no program.
    """
    page = Page.of(query)
    usable = usable_lots(member.organization_id, now).where(_SAME_COUPON).exists()
    filters = {**_FILTERS, "notUsedOnly": is_true_if_asked(usable)}
    conditions = [*_of_member(member), *conditions_of(filters, query)]
    if loyalty_program_id is not None:
        conditions.append(is_of_program_or_none(loyalty_program_id, _BOOK))
    order = ordering(page.order, {**ORDER, "expiredAt": expiry_of_member(now)}, _TIE_BREAK)
    # The page is determined first, so that only the lots of its coupons are read.
    ids = select(table.c.member_coupon_id).select_from(_JOINED).where(*conditions).order_by(*order)
    on_page = ids.limit(page.limit).offset(page.page * page.limit)
    is_on_page = table.c.member_coupon_id == any_(func.array(on_page.correlate(None).scalar_subquery()))
    columns = (
        table.c.coupon_book_id,
        table.c.coupon_id,
        _COUPON.c.code,
        table.c.amount_assigned,
        table.c.amount_used,
        _of_next_lot("custom_attributes", now),
        expiry_of_member(now),
        _remaining_value(now),
        table.c.created_at,
        table.c.updated_at,
    )
    statement = select(*columns, *_BOOK_COLUMNS).select_from(_JOINED).where(*_of_member(member), is_on_page)
    parameters = {"organization_id": member.organization_id}
    rows = db.execute(statement.order_by(*order), parameters).all()
    # The rows before and on the last page are the total; for other pages, and pages beyond the last one, count.
    if len(rows) < page.limit and (rows or page.page == 0):
        total = page.page * page.limit + len(rows)
    else:
        total = db.execute(select(func.count()).select_from(_JOINED).where(*conditions), parameters).scalar_one()
    width = len(columns)
    entries = [MemberCouponEntry(*(*row[:width], CouponBook(*row[width:]))) for row in rows]
    return Paged(total_count=total, page=page.page, limit=page.limit, results=entries)


def expiry_of_member(at: datetime) -> ColumnElement[Any]:
    """The next expiry of a member's coupon after `at`; if nothing of it can be used any more, its last expiry."""
    return _of_next_lot("expired_at", at)


def _remaining_value(at: datetime) -> ColumnElement[Any]:
    """The value that can be used of a member's coupon at `at`; null unless it is a value coupon."""
    is_usable = (lots.c.amount > lots.c.amount_used) & (_lot_expiry > at)
    total = select(func.coalesce(func.sum(lots.c.remaining_value).filter(is_usable), 0)).where(_SAME_COUPON)
    return case((_BOOK.c.is_value_coupon, total.scalar_subquery()), else_=None).label("remaining_value")


# The same expression as in the indexes of lots with an amount left.
_lot_expiry: ColumnElement[Any] = func.coalesce(lots.c.expired_at, literal_column("'infinity'::timestamptz"))


def _of_next_lot(name: str, at: datetime) -> ColumnElement[Any]:
    """The column `name` of the lot that is used next; if none can be used, of the unused lot that expired last."""
    lot_column = select(lots.c[name]).where(_SAME_COUPON, lots.c.amount > lots.c.amount_used)
    usable, expired = lot_column.where(_lot_expiry > at), lot_column.where(_lot_expiry <= at)
    age = lots.c.created_at, lots.c.coupon_lot_id
    return case(
        (usable.exists(), usable.order_by(_lot_expiry, *age).limit(1).scalar_subquery()),
        (expired.exists(), expired.order_by(_lot_expiry.desc(), *age).limit(1).scalar_subquery()),
        # Without an amount left: the columns of `member_coupons` are those of the last lot.
        else_=table.c[name],
    ).label(name)


def usable_lots(organization_id: int, at: datetime) -> Select[Any]:
    """The ids of the organization's lots with an amount that can be used at `at`, to be looked up in a condition.

    OFFSET 0 keeps the planner from comparing all lots of the organization with each row (see `lateral_row`).
    """
    is_usable = lots.c.organization_id == organization_id, lots.c.amount > lots.c.amount_used, _lot_expiry > at
    return select(lots.c.coupon_lot_id).where(*is_usable).offset(0)


_TOTALS_FILTERS = {
    "tags": has_all(_BOOK.c.tags),
    "tagsAny": has_any(_BOOK.c.tags),
    "validFromDate": is_null_or_at_or_after(_BOOK.c.valid_to_date),
    "validToDate": is_null_or_at_or_before(_BOOK.c.valid_from_date),
}


class AmountTotals(NamedTuple):
    """The amounts that a member used and was assigned, over several coupon books."""

    used: Decimal
    assigned: Decimal


def find_totals(db: Connection, member: Member, loyalty_program_id: int, query: Mapping[str, Any]) -> AmountTotals:
    """The member's totals over the books that match the query.

    Only books of the program and books of no program count.
    """
    of_program = is_of_program_or_none(loyalty_program_id, _BOOK)
    conditions = [*_of_member(member), of_program, *conditions_of(_TOTALS_FILTERS, query)]
    sums = [func.coalesce(func.sum(column), 0) for column in (table.c.amount_used, table.c.amount_assigned)]
    statement = select(*sums).select_from(_JOINED).where(*conditions)
    return AmountTotals(*db.execute(statement, {"organization_id": member.organization_id}).one())


def _of_member(member: Member) -> list[ColumnElement[bool]]:
    """The conditions that a row is of the member and is not reversed entirely."""
    return [
        is_same(table, member, "member_id"),
        or_(table.c.amount_assigned != 0, table.c.amount_used != 0),
    ]
