"""Coupon lots, one for each assignment to a member, the order of their use, and the periods of limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from decimal import Decimal
from typing import Any, Protocol

from domain.calendar import DAILY, MONTHLY, WEEKLY, period_start, start_of_day, zone_named
from domain.coupons.books import BookTerms
from domain.coupons.usages import MemberCoupon, ValueExceeded
from domain.currencies import EXACT
from domain.fields import Personal

ZERO, ONE = Decimal(0), Decimal(1)


@dataclass(frozen=True, slots=True)
class CouponLot:
    """The amount that one assignment of a coupon gave a member.

    `coupon_lot_id` is the id of the assignment. `amount` is the assigned amount less what was reversed; `amount_owed`
    is the used part of a reversed assignment, which is taken as soon as its use is reverted. `custom_attributes` are
    the assignment's `couponData`; nothing of a lot can be used from `expired_at` on. For value coupons, `value` is the
    value of one, and `remaining_value` what is left of the value of all: a coupon whose value is gone counts as used.
    """

    organization_id: int
    coupon_lot_id: int
    member_id: int
    coupon_id: int
    coupon_book_id: int
    amount: Decimal
    amount_used: Decimal
    amount_owed: Decimal
    value: Decimal | None
    remaining_value: Decimal | None
    custom_attributes: Personal[Mapping[str, Any]]
    expired_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def has_uses(self) -> bool:
        """True if anything of the lot is used, even if only a part of the value of one coupon."""
        if self.value is None or self.remaining_value is None:
            return self.amount_used > 0
        return self.amount_used > 0 or self.remaining_value < EXACT.multiply(self.amount, self.value)

    @property
    def unused_amount(self) -> Decimal:
        """The assigned amount less the used one, at least zero, even if the lot has expired."""
        return max(ZERO, self.amount - self.amount_used)

    @property
    def last_data(self) -> dict[str, Any]:
        """The data that a coupon keeps of its last lot; empty if the lot was reversed entirely and never used."""
        if not self.amount and not self.amount_used:
            return {"expired_at": None, "custom_attributes": {}}
        return {"expired_at": self.expired_at, "custom_attributes": self.custom_attributes}

    def has_expired(self, at: datetime) -> bool:
        """True if the lot has expired at `at`."""
        return self.expired_at is not None and self.expired_at <= at

    def refuse_over_value(self, discounted: Decimal | None) -> None:
        """Refuse a use that takes more than the value that remains."""
        remaining = self.remaining_value
        if remaining is not None and discounted is not None and discounted > remaining:
            raise ValueExceeded(
                f"The use takes a value of {discounted:f}; the coupon has {remaining:f} left.", available=remaining
            )

    def after_use(self, amount: Decimal, at: datetime, discounted: Decimal | None = None) -> CouponLot:
        """The lot after a use of `amount`; a use of a value coupon takes `discounted` of the value instead."""
        if self.value is None or self.remaining_value is None or discounted is None:
            return replace(self, amount_used=self.amount_used + amount, updated_at=at)
        remaining = EXACT.subtract(self.remaining_value, discounted)
        return replace(self, amount_used=self._used_amount_at(remaining), remaining_value=remaining, updated_at=at)

    def after_reverted_assignment(self, amount: Decimal, at: datetime, *, owed_amount: Decimal = ZERO) -> CouponLot:
        """The lot after `amount` of the assignment was reversed.

        `owed_amount` of it is used: it is taken when that use is reverted.
        """
        lot_after = replace(self, amount=self.amount - amount, amount_owed=owed_amount, updated_at=at)
        return lot_after._within_its_value(self.remaining_value)

    def after_reverted_use(self, amount: Decimal, at: datetime, discounted: Decimal | None = None) -> CouponLot:
        """The lot after the reversal of a use of `amount`.

        For a value coupon, `discounted` goes back to the value, and determines how many coupons become unused. If the
        assignment was reversed before, a part of it may still be owed: it is taken from the coupons that become unused.
        """
        remaining = None
        if self.value is not None and self.remaining_value is not None and discounted is not None:
            remaining = EXACT.add(self.remaining_value, discounted)
            amount = self.amount_used - self._used_amount_at(remaining)
        taken_debt = min(amount, self.amount_owed)
        lot_after = replace(
            self,
            amount=self.amount - taken_debt,
            amount_used=self.amount_used - amount,
            amount_owed=self.amount_owed - taken_debt,
            updated_at=at,
        )
        return lot_after._within_its_value(remaining)

    def _used_amount_at(self, remaining: Decimal) -> Decimal:
        """The number of coupons that are used up if `remaining` is left of the value of all coupons."""
        whole, part = EXACT.divmod(remaining, self.value or ONE)
        return max(ZERO, self.amount - whole - (ONE if part else ZERO))

    def _within_its_value(self, remaining: Decimal | None) -> CouponLot:
        """The lot with a remaining value, cut to the value of its unused coupons; unchanged without a value."""
        if self.value is None or remaining is None:
            return self
        return replace(self, remaining_value=min(remaining, EXACT.multiply(self.unused_amount, self.value)))


def total_value(amount: Decimal, value: Decimal | None) -> Decimal | None:
    """The value of `amount` new coupons of this value; None for coupons that are no value coupons."""
    return None if value is None else EXACT.multiply(amount, value)


def order_of_use(lot: CouponLot) -> tuple[Any, ...]:
    """The sort key of the order of use: soonest to expire first, never last; of equal ones the oldest first."""
    # Lots of a dry run have negative, falling ids; stored lots are older than lots of a dry run.
    age = (lot.created_at, lot.coupon_lot_id < 0, abs(lot.coupon_lot_id))
    return (lot.expired_at is None, lot.expired_at or lot.created_at, *age)


def last_expiry(lots: Collection[CouponLot]) -> datetime | None:
    """The expiry of the lot that expires last; None if a lot never expires, or if there are no lots."""
    expiries = [lot.expired_at for lot in lots if lot.expired_at is not None]
    has_endless_lot = len(expiries) < len(lots)
    return None if has_endless_lot else max(expiries, default=None)


def next_lot_data(lots: Collection[CouponLot], member_coupon: MemberCoupon) -> dict[str, Any]:
    """The fields that a code of one member copies from its lots: the last expiry, and attributes of the next lot.

    The next lot is the one to be used next; expired lots come last. Without lots, these are the fields of
    `member_coupon`.
    """
    if lots:
        next_lot = min(lots, key=lambda lot: (lot.has_expired(member_coupon.updated_at), order_of_use(lot)))
        return {"expired_at": last_expiry(lots), "custom_attributes": next_lot.custom_attributes}
    return {"expired_at": member_coupon.expired_at, "custom_attributes": member_coupon.custom_attributes}


# The number of lots that are read first, and the factor by which each further reading reads more.
_FIRST_LIMIT, _LIMIT_FACTOR = 1, 8


@dataclass(frozen=True, slots=True)
class LotRange:
    """The lots from which a use may take: the lots of a book, or of one of its coupons, with or without expired ones.

    The lots of a range belong to one member, and each has an amount left.
    """

    coupon_book_id: int
    coupon_id: int | None
    with_expired: bool

    def contains(self, lot: CouponLot, at: datetime) -> bool:
        """True if a lot of the book belongs to the range at `at`."""
        is_in_range = self.coupon_id in (None, lot.coupon_id) and lot.unused_amount > 0
        return is_in_range and (self.with_expired or not lot.has_expired(at))


class LotSource(Protocol):
    """A store of lots."""

    @property
    def member_ids(self) -> Collection[int]:
        """The members of the unit of work."""

    def find_lots(self, lot_range: LotRange, after: Mapping[int, CouponLot | None], limit: int) -> Sequence[CouponLot]:
        """Up to `limit` lots of each member, in the order of use; `after` is the member's last lot read so far."""


class LotReading:
    """How far the lots of each range have been read; the locks of the unit of work keep unread lots unchanged."""

    def __init__(self, source: LotSource) -> None:
        self._source = source
        # By range and member: the last lot read, and whether all lots were read.
        self._last: dict[tuple[LotRange, int], CouponLot] = {}
        self._complete: set[tuple[LotRange, int]] = set()
        # How many lots of each member the next statement reads.
        self._limits: dict[LotRange, int] = {}

    def precedes_unread_lots(self, member_id: int, lot_range: LotRange, lot: CouponLot | None) -> bool:
        """True if `lot`, the first usable one of those read, is used before all lots that are not read yet.

        If none of them is usable (`lot` is None), it is true once all lots are read.
        """
        place = lot_range, member_id
        if place in self._complete:
            return True
        last_read_lot = self._last.get(place)
        return lot is not None and last_read_lot is not None and order_of_use(lot) <= order_of_use(last_read_lot)

    def read_more(self, member_id: int, lot_range: LotRange, count: int) -> list[CouponLot]:
        """Read the next lots of the range, at least `count` of them if they exist.

        Each reading is for all members of the unit of work, and reads eight times as many lots as the previous one, so
        that the number of statements hardly grows with the amount used.
        """
        member_ids = {member_id, *self._source.member_ids}
        last_lots = {
            holder_id: self._last.get((lot_range, holder_id))
            for holder_id in member_ids
            if (lot_range, holder_id) not in self._complete
        }
        limit = max(count, self._limits.get(lot_range, _FIRST_LIMIT))
        self._limits[lot_range] = _LIMIT_FACTOR * limit
        lots = self._source.find_lots(lot_range, last_lots, limit)
        lots_by_member: dict[int, list[CouponLot]] = {}
        for lot in lots:
            lots_by_member.setdefault(lot.member_id, []).append(lot)
        for holder_id in last_lots:
            place = lot_range, holder_id
            member_lots = lots_by_member.get(holder_id, [])
            if member_lots:
                self._last[place] = max(member_lots, key=order_of_use)
            if len(member_lots) < limit:
                self._complete.add(place)
        return list(lots)


PERIODS = (DAILY, WEEKLY, MONTHLY)


def zone_of(book: BookTerms, zone: tzinfo) -> tzinfo:
    """The time zone of the book's days and periods."""
    return zone if book.timezone is None else zone_named(book.timezone)


def period_starts(book: BookTerms, at: datetime, zone: tzinfo) -> tuple[datetime | None, datetime | None]:
    """The moments at which the present periods of uses and of discounts began; None for a limit that the book lacks.

    `zone` is the organization's, for books without a time zone of their own.
    """
    if book.max_usages_per_period is None and book.max_discount_per_period is None:
        return None, None
    zone = zone_of(book, zone)
    return (
        _start_of_period(book.max_usages_per_period, book.usage_period_type, at, zone),
        _start_of_period(book.max_discount_per_period, book.discount_period_type, at, zone),
    )


def _start_of_period(limit: Decimal | int | None, period: str | None, at: datetime, zone: tzinfo) -> datetime | None:
    """The start of the period that contains `at`; None without a limit."""
    if limit is None or period is None:
        return None
    return start_of_day(period_start(period, at, zone), zone)
