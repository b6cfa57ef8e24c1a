"""What a unit of work has taken of coupon books: books, codes, and what members have of them, changed in memory.

Each figure is journalled, so that a part of the work, such as one item of a batch, can be taken back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from domain.calendar import start_of_day
from domain.coupons.books import GENERATED, LIST, CouponBook, stock_left
from domain.coupons.codes import Coupon, UnknownCoupon
from domain.coupons.lot_reading import LotRange, LotReading, LotSource
from domain.coupons.lots import CouponLot, last_expiry, order_of_use
from domain.coupons.periods import discount_period, usage_period, zone_of
from domain.coupons.refusals import OutOfStock
from domain.coupons.usages import CodeHeld, CouponUsage, MemberCoupon
from domain.journal import Journal, Savepoint

ZERO = Decimal(0)

Place = tuple[int, int]
"""A member's id, and a coupon's or a book's."""

PERSONAL = frozenset({LIST, GENERATED})
"""The types whose codes belong to one member each."""


@dataclass(frozen=True, slots=True)
class Had:
    """What a member has had of a book: assigned and not reverted, and used and discounted in the present periods."""

    assigned: Decimal = ZERO
    used: Decimal = ZERO
    discounted: Decimal = ZERO


class Supply(LotSource, Protocol):
    """Where more lots come from, and codes: free ones of a list, locked, or such as were made for a generated book."""

    def more(self, book: CouponBook) -> list[Coupon]:
        """Some codes, as many as the work may soon need; none where there are no more."""


def period_starts(book: CouponBook, at: datetime) -> tuple[datetime | None, datetime | None]:
    """Since when uses, and discounts, count against the book's limits; None where there is no such limit."""
    days = usage_period(book, at), discount_period(book, at)
    uses, discounts = (None if day is None else start_of_day(day, zone_of(book)) for day in days)
    return uses, discounts


class CouponState:
    """The state of coupon books, as far as it was loaded, at the moment `at`.

    `shared` is the one coupon of each book whose coupon is for all. `found` are usages that may be reverted.
    """

    def __init__(self, at: datetime, supply: Supply) -> None:
        self.at = at
        self.books: dict[int, CouponBook] = {}
        self.coupons: dict[int, Coupon] = {}
        self.shared: dict[int, int] = {}
        self.held: dict[Place, MemberCoupon] = {}
        self.lots: dict[int, CouponLot] = {}
        self.made: list[CouponUsage] = []
        self.found: dict[int, CouponUsage] = {}
        self.original_books: dict[int, CouponBook] = {}
        self.original_coupons: dict[int, Coupon] = {}
        self.new_coupons: set[int] = set()
        self._had: dict[Place, Had] = {}
        self._by_code: dict[tuple[int, str | None], int] = {}
        self._lots_of_book: dict[Place, dict[int, None]] = {}
        self._lots_of_coupon: dict[Place, dict[int, None]] = {}
        self._free: dict[int, list[int]] = {}
        self._next_free: dict[int, int] = {}
        self._supply = supply
        self._reading = LotReading(supply)
        self._journal = Journal(self.made)

    # -- loading ------------------------------------------------------------------------------------------------------

    def put_book(self, book: CouponBook) -> None:
        """Take a book, or a book as it is now that it is locked; what the work has changed of it stays."""
        before, now = self.original_books.get(book.coupon_book_id), self.books.get(book.coupon_book_id)
        self.original_books[book.coupon_book_id] = book
        if before is not None and now is not None:
            book = replace(
                book,
                total_assigned=book.total_assigned + now.total_assigned - before.total_assigned,
                total_usages=book.total_usages + now.total_usages - before.total_usages,
            )
        self.books[book.coupon_book_id] = book

    def put_coupons(self, coupons: Iterable[Coupon], *, new: bool = False) -> None:
        """Take coupons that were loaded, or made; one that is known already stays as the work has left it."""
        for coupon in coupons:
            if coupon.coupon_id in self.coupons:
                continue
            self.coupons[coupon.coupon_id] = coupon
            self._by_code[coupon.coupon_book_id, coupon.code] = coupon.coupon_id
            if new:
                self.new_coupons.add(coupon.coupon_id)
            else:
                self.original_coupons[coupon.coupon_id] = coupon
            book = self.books.get(coupon.coupon_book_id)
            if book is not None and book.type not in PERSONAL:
                self.shared[coupon.coupon_book_id] = coupon.coupon_id

    def put_held(self, held: Iterable[MemberCoupon]) -> None:
        """Take what members have of coupons, unless that is known already."""
        for member_coupon in held:
            self.held.setdefault((member_coupon.member_id, member_coupon.coupon_id), member_coupon)

    def put_lots(self, lots: Iterable[CouponLot]) -> None:
        """Take lots that may be used or reverted, unless known already; of a code that is one member's, all lots."""
        for lot in lots:
            if lot.coupon_lot_id not in self.lots:
                self.lots[lot.coupon_lot_id] = lot
                self._note_lot(lot)

    def put_had(self, had: Mapping[Place, Had]) -> None:
        """Take what members have had of a book, before the work changes anything of it."""
        self._had.update(had)

    # -- looking ------------------------------------------------------------------------------------------------------

    def had(self, member_id: int, coupon_book_id: int) -> Had:
        """What the member has had of the book at this point of the work."""
        return self._had.get((member_id, coupon_book_id), _NOTHING)

    def stock_left(self, book: CouponBook) -> Decimal | None:
        """How much can be assigned where a figure says so; codes of a list run out when there are no more."""
        return None if book.type == LIST else stock_left(self.books[book.coupon_book_id])

    def next_lot(self, member_id: int, among: LotRange, count: int) -> CouponLot | None:
        """The lot that the member uses next, None where nothing is left; so many as `count` are read at once."""
        while True:
            ids = self._lots_of_book.get((member_id, among.coupon_book_id), ())
            known = (lot for lot_id in ids if (lot := self.lots.get(lot_id)) is not None)
            found = min((lot for lot in known if among.contains(lot, self.at)), key=order_of_use, default=None)
            if self._reading.is_next(member_id, among, found):
                return found
            self.put_lots(self._reading.further(member_id, among, count))

    def by_code(self, book: CouponBook, code: str) -> Coupon:
        """The book's coupon with this code; raises UnknownCoupon."""
        coupon_id = self._by_code.get((book.coupon_book_id, code))
        if coupon_id is None:
            raise UnknownCoupon(f"The coupon book {book.name} has no code {code}.")
        return self.coupons[coupon_id]

    def to_assign(self, member_id: int, book: CouponBook, coupon: Coupon | None, amount: Decimal) -> Coupon:
        """The coupon of which the member gets `amount`: that asked for, or the next. Raises OutOfStock or CodeHeld."""
        if coupon is not None:
            if book.type in PERSONAL:
                self._refuse_held(member_id, coupon)
        elif book.type in PERSONAL:
            coupon = self._next_code(book)
        else:
            shared = self.shared.get(book.coupon_book_id)
            if shared is None:
                raise OutOfStock(f"The coupon book {book.name} has no code yet.")
            coupon = self.coupons[shared]
        most = book.max_assigned_per_coupon
        if coupon.code is not None and most is not None and coupon.total_assigned + amount > most:
            raise OutOfStock(
                f"A code may be assigned {most} times, and this one has been {coupon.total_assigned} times."
            )
        return coupon

    def _refuse_held(self, member_id: int, coupon: Coupon) -> None:
        held = self.held.get((member_id, coupon.coupon_id))
        own_assigned, own_used = (ZERO, ZERO) if held is None else (held.amount_assigned, held.amount_used)
        if coupon.total_assigned > own_assigned or coupon.total_usages > own_used:
            raise CodeHeld(f"The code {coupon.code} was given to another member.")

    def _next_code(self, book: CouponBook) -> Coupon:
        free = self._free.setdefault(book.coupon_book_id, [])
        while True:
            place = self._next_free.get(book.coupon_book_id, 0)
            if place == len(free):
                more = self._supply.more(book)
                if not more:
                    raise OutOfStock(f"All codes of the coupon book {book.name} are assigned.")
                self.put_coupons(more, new=book.type == GENERATED)
                free.extend(coupon.coupon_id for coupon in more)
                continue
            self._journal.put(self._next_free, book.coupon_book_id, place + 1)
            coupon = self.coupons[free[place]]
            # It may have been asked for by name meanwhile.
            if coupon.total_assigned == 0 and coupon.total_usages == 0:
                return coupon

    # -- changing -----------------------------------------------------------------------------------------------------

    def savepoint(self) -> Savepoint:
        """A point that `rollback_to` can return to."""
        return self._journal.savepoint()

    def rollback_to(self, savepoint: Savepoint) -> None:
        """Take back all that was done since the savepoint; codes that were fetched stay at hand."""
        self._journal.rollback_to(savepoint)

    def move(
        self, member_id: int, coupon: Coupon, assigned: Decimal, used: Decimal, lot: CouponLot | None
    ) -> MemberCoupon:
        """Add to what a member has of a coupon, and to the sums of the coupon and its book; `lot` is as it is then."""
        if lot is not None:
            self.keep_lot(lot)
        before = self.held.get((member_id, coupon.coupon_id)) or self._nothing(member_id, coupon)
        after = replace(
            before,
            amount_assigned=before.amount_assigned + assigned,
            amount_used=before.amount_used + used,
            updated_at=self.at,
            **({} if lot is None else _last_of(lot)),
        )
        self._journal.put(self.held, (member_id, coupon.coupon_id), after)
        book = self.books[coupon.coupon_book_id]
        own = _told_by(self._left_of(member_id, coupon), after) if book.type in PERSONAL else {}
        self._journal.put(self.coupons, coupon.coupon_id, _moved(self.coupons[coupon.coupon_id], assigned, used, own))
        self._journal.put(self.books, book.coupon_book_id, _moved(book, assigned, used, {}))
        had = self.had(member_id, book.coupon_book_id)
        self._journal.put(self._had, (member_id, book.coupon_book_id), replace(had, assigned=had.assigned + assigned))
        return after

    def keep_lot(self, lot: CouponLot) -> None:
        """Take a lot that was made, or changed."""
        if lot.coupon_lot_id not in self.lots:
            self._note_lot(lot)
        self._journal.put(self.lots, lot.coupon_lot_id, lot)

    def _note_lot(self, lot: CouponLot) -> None:
        self._lots_of_book.setdefault((lot.member_id, lot.coupon_book_id), {})[lot.coupon_lot_id] = None
        self._lots_of_coupon.setdefault((lot.member_id, lot.coupon_id), {})[lot.coupon_lot_id] = None

    def _left_of(self, member_id: int, coupon: Coupon) -> list[CouponLot]:
        """The lots of a code that is one member's of which something is left."""
        ids = self._lots_of_coupon.get((member_id, coupon.coupon_id), ())
        return [lot for lot_id in ids if (lot := self.lots.get(lot_id)) is not None and lot.left > 0]

    def _nothing(self, member_id: int, coupon: Coupon) -> MemberCoupon:
        return MemberCoupon(
            organization_id=coupon.organization_id,
            member_coupon_id=0,
            member_id=member_id,
            coupon_id=coupon.coupon_id,
            coupon_book_id=coupon.coupon_book_id,
            amount_assigned=ZERO,
            amount_used=ZERO,
            custom_attributes={},
            expired_at=None,
            created_at=self.at,
            updated_at=self.at,
        )

    def count_use(
        self, member_id: int, book: CouponBook, used: Decimal, discounted: Decimal, used_at: datetime
    ) -> None:
        """Count a use, or with figures below zero one that is taken back, in the periods in which it took place."""
        uses_since, discounts_since = period_starts(book, self.at)
        had = self.had(member_id, book.coupon_book_id)
        if uses_since is not None and used_at >= uses_since:
            had = replace(had, used=had.used + used)
        if discounts_since is not None and used_at >= discounts_since:
            had = replace(had, discounted=had.discounted + discounted)
        self._journal.put(self._had, (member_id, book.coupon_book_id), had)

    def keep(self, usage: CouponUsage) -> CouponUsage:
        """Take a usage that was made; it may be reverted in the same work."""
        self.made.append(usage)
        self._journal.put(self.found, usage.coupon_usage_id, usage)
        return usage

    def link(self, usage: CouponUsage, reversal_id: int) -> None:
        """Note on a usage what reverts it."""
        linked = replace(usage, reversal_usage_id=reversal_id, updated_at=self.at)
        self._journal.put(self.found, usage.coupon_usage_id, linked)

    def reset(self) -> None:
        """Begin anew from what has been stored now."""
        stored = set(self._touched(self.coupons))
        self._journal.clear()
        self.made.clear()
        self.original_books = dict(self.books)
        self.original_coupons = dict(self.coupons)
        # Codes that were made and not given out yet are still to be stored.
        self.new_coupons -= stored

    @property
    def changed_books(self) -> list[CouponBook]:
        """Books whose sums have moved, by id."""
        return [self.books[each] for each in self._touched(self.books)]

    @property
    def changed_coupons(self) -> list[Coupon]:
        """Coupons whose sums have moved, by id; those of `new_coupons` are not stored yet."""
        return [self.coupons[each] for each in self._touched(self.coupons)]

    @property
    def changed_held(self) -> list[MemberCoupon]:
        """What members have, as far as it has changed."""
        return [self.held[place] for place in self._touched(self.held)]

    @property
    def changed_lots(self) -> list[CouponLot]:
        """Lots that were made or changed, by id."""
        return [self.lots[each] for each in self._touched(self.lots)]

    @property
    def changed_found(self) -> list[CouponUsage]:
        """Usages that have been made or reverted."""
        return [self.found[each] for each in self._touched(self.found)]

    def _touched(self, store: dict[Any, Any]) -> Collection[Any]:
        return sorted(self._journal.changed(store))


def _moved(record: Any, assigned: Decimal, used: Decimal, changes: Mapping[str, Any]) -> Any:
    """A book or coupon with its sums moved."""
    assigned, used = record.total_assigned + assigned, record.total_usages + used
    return replace(record, total_assigned=assigned, total_usages=used, **changes)


def _last_of(lot: CouponLot) -> dict[str, Any]:
    """What is kept of the last lot of a coupon; nothing of one that was taken back altogether and never used."""
    if not lot.amount and not lot.amount_used:
        return {"expired_at": None, "custom_attributes": {}}
    return {"expired_at": lot.expired_at, "custom_attributes": lot.custom_attributes}


def _told_by(left: Collection[CouponLot], held: MemberCoupon) -> dict[str, Any]:
    """When a coupon of one member's expires for good, and the data of what is used next."""
    if left:
        return {"expired_at": last_expiry(left), "custom_attributes": min(left, key=order_of_use).custom_attributes}
    return {"expired_at": held.expired_at, "custom_attributes": held.custom_attributes}


_NOTHING = Had()
