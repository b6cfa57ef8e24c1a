"""In-memory state of coupon books in one unit of work: books, codes, and members' coupons.

Every change is logged, so that a part of the work, such as one item of a batch, can be rolled back.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Any, NamedTuple, Protocol, TypeVar

from domain.coupons.books import GENERATED, LIST, BookTerms, Coupon, UnknownCoupon, free_codes_of, stock_left
from domain.coupons.locks import CouponLock, CouponLocked
from domain.coupons.lots import CouponLot, LotRange, LotReading, LotSource, next_lot_data, order_of_use, period_starts
from domain.coupons.refusals import OutOfStock
from domain.coupons.usages import CodeHeld, CouponUsage, MemberCoupon, UsageTotals
from domain.currencies import EXACT
from domain.undo_log import UndoableState

ZERO = Decimal(0)

Key = TypeVar("Key")
Record = TypeVar("Record")

Place = tuple[int, int]
"""A member's id, and the id of a coupon or of a book."""

PERSONAL_TYPES = frozenset({LIST, GENERATED})
"""The types of books whose codes belong to one member each."""


class CodeSupply(LotSource, Protocol):
    """A source of further lots, and of codes: locked free codes of a list, or new codes for a generated book."""

    def supply_codes(self, book: BookTerms) -> list[Coupon]:
        """Lock or create further codes, about as many as the work may soon need; return none if there are no more."""


class CouponChanges(NamedTuple):
    """Records to be stored: records whose sums or amounts have changed, and new ones.

    The originals are the books and coupons in their stored form, before the changes.
    """

    books: list[BookTerms]
    coupons: list[Coupon]
    member_coupons: list[MemberCoupon]
    lots: list[CouponLot]
    usages: list[CouponUsage]
    locks: list[CouponLock]
    new_coupon_ids: frozenset[int]
    new_usage_ids: frozenset[int]
    original_books: Mapping[int, BookTerms]
    original_coupons: Mapping[int, Coupon]


class CouponState(UndoableState):
    """The state of the loaded coupon books at the moment `at`; `zone` is the zone of books without one of their own.

    `shared_coupon_ids` has, by book, the id of a coupon that is for all members. The `usages` may be reverted.
    Codes that were fetched remain available after a rollback.
    """

    def __init__(self, at: datetime, supply: CodeSupply, zone: tzinfo = UTC) -> None:
        self.at = at
        self.zone = zone
        self.books: dict[int, BookTerms] = {}
        self.coupons: dict[int, Coupon] = {}
        self.shared_coupon_ids: dict[int, int] = {}
        self.member_coupons: dict[Place, MemberCoupon] = {}
        self.lots: dict[int, CouponLot] = {}
        self.new_usages: list[CouponUsage] = []
        self.usages: dict[int, CouponUsage] = {}
        # By coupon: the members with an unreverted use of its value.
        self._value_users: dict[int, set[int]] = {}
        # The active locks of the members, and by book, the number of all locks that reserve stock.
        self.locks: dict[int, CouponLock] = {}
        self.locked_stock: dict[int, int] = {}
        self.original_books: dict[int, BookTerms] = {}
        self.original_coupons: dict[int, Coupon] = {}
        self.new_coupon_ids: set[int] = set()
        self._totals: dict[Place, UsageTotals] = {}
        self._ids_by_code: dict[tuple[int, str | None], int] = {}
        # The ids of lots, as keys of a dictionary, which keeps their order.
        self._lots_of_book: dict[Place, dict[int, None]] = {}
        self._lots_of_coupon: dict[Place, dict[int, None]] = {}
        # By book: the ids of the codes that were fetched as free, and the position in them of the next code to assign.
        self._free_ids: dict[int, list[int]] = {}
        self._next_free_position: dict[int, int] = {}
        self._supply = supply
        self._reading = LotReading(supply)
        super().__init__(self.new_usages)

    # -- loading ------------------------------------------------------------------------------------------------------

    def put_book(self, book: BookTerms) -> None:
        """Add a book, or replace it by its locked version; changes made by the work are kept."""
        before = self.original_books.get(book.coupon_book_id)
        self.original_books[book.coupon_book_id] = book
        if before is not None:
            changed_book = self.books[book.coupon_book_id]
            book = replace(
                book,
                total_assigned=book.total_assigned + changed_book.total_assigned - before.total_assigned,
                total_usages=book.total_usages + changed_book.total_usages - before.total_usages,
                locked_until=max(filter(None, (book.locked_until, changed_book.locked_until)), default=None),
            )
        self.books[book.coupon_book_id] = book

    def put_coupons(self, coupons: Iterable[Coupon], *, are_new: bool = False) -> None:
        """Add loaded or new coupons; coupons that are present already keep their state."""
        for coupon in coupons:
            if coupon.coupon_id in self.coupons:
                continue
            self.coupons[coupon.coupon_id] = coupon
            self._ids_by_code[coupon.coupon_book_id, coupon.code] = coupon.coupon_id
            if are_new:
                self.new_coupon_ids.add(coupon.coupon_id)
            else:
                self.original_coupons[coupon.coupon_id] = coupon
            book = self.books.get(coupon.coupon_book_id)
            if book is not None and book.type not in PERSONAL_TYPES:
                self.shared_coupon_ids[coupon.coupon_book_id] = coupon.coupon_id

    def put_member_coupons(self, member_coupons: Iterable[MemberCoupon]) -> None:
        """Add members' amounts of coupons, except amounts that the state has."""
        for member_coupon in member_coupons:
            self.member_coupons.setdefault((member_coupon.member_id, member_coupon.coupon_id), member_coupon)

    def put_lots(self, lots: Iterable[CouponLot]) -> None:
        """Add loaded lots that may be used or reverted, except lots that the state has."""
        for lot in lots:
            if lot.coupon_lot_id not in self.lots:
                self.lots[lot.coupon_lot_id] = lot
                self._index_lot(lot)

    def put_value_users(self, users: Iterable[tuple[int, int]]) -> None:
        """Add coupons with the members who have an unreverted use of their value."""
        for coupon_id, member_id in users:
            self._value_users.setdefault(coupon_id, set()).add(member_id)

    def put_totals(self, totals: Mapping[Place, UsageTotals]) -> None:
        """Add members' totals of books, before the work changes these totals."""
        self._totals.update(totals)

    def put_locks(self, locks: Iterable[CouponLock], reserved_stock: Mapping[int, int]) -> None:
        """Add active locks, except locks that the work has changed.

        Unless it has changed any, also add `reserved_stock`, the number of locks that reserve stock, by book.
        """
        changed_locks = self.changes_of(self.locks)
        self.locks.update({lock.coupon_lock_id: lock for lock in locks if lock.coupon_lock_id not in changed_locks})
        if not changed_locks:
            self.locked_stock.update(reserved_stock)

    # -- reading ------------------------------------------------------------------------------------------------------

    def totals(self, member_id: int, coupon_book_id: int) -> UsageTotals:
        """The present totals of the member and the book."""
        return self._totals.get((member_id, coupon_book_id), _NOTHING)

    def stock_left(self, book: BookTerms) -> Decimal | None:
        """The amount that a limit leaves to be assigned; None for a list, which ends when its codes run out."""
        stock = None if book.type == LIST else stock_left(self.books[book.coupon_book_id])
        return None if stock is None else stock - self.locked_stock.get(book.coupon_book_id, 0)

    def locks_of(self, member_id: int, coupon_book_id: int, coupon_id: int | None = None) -> list[CouponLock]:
        """The member's active locks of the coupons of a book, or of one coupon."""
        if not self.locks:
            return []
        return [
            lock
            for lock in self.locks.values()
            if (lock.member_id, lock.coupon_book_id) == (member_id, coupon_book_id)
            and (coupon_id is None or lock.coupon_id == coupon_id)
            and lock.is_active(self.at)
        ]

    def next_lot(self, member_id: int, lot_range: LotRange, count: int) -> CouponLot | None:
        """The member's next lot to be used, None if there is none; `count` lots are read at once."""
        lock_counts = Counter(lock.coupon_lot_id for lock in self.locks.values() if lock.is_active(self.at))
        while True:
            ids = self._lots_of_book.get((member_id, lot_range.coupon_book_id), ())
            lots = [lot for lot_id in ids if (lot := self.lots.get(lot_id)) is not None]
            usable = [
                lot
                for lot in lots
                if lot_range.contains(lot, self.at) and lot.unused_amount > lock_counts[lot.coupon_lot_id]
            ]
            next_lot = min(usable, key=order_of_use, default=None)
            if self._reading.precedes_unread_lots(member_id, lot_range, next_lot):
                return next_lot
            self.put_lots(self._reading.read_more(member_id, lot_range, count))

    def coupon_by_code(self, book: BookTerms, code: str) -> Coupon:
        """The book's coupon with this code; raises UnknownCoupon."""
        coupon_id = self._ids_by_code.get((book.coupon_book_id, code))
        if coupon_id is None:
            raise UnknownCoupon(f"The coupon book {book.name} has no code {code}.")
        return self.coupons[coupon_id]

    def coupon_to_assign(self, member_id: int, book: BookTerms, coupon: Coupon | None, amount: Decimal) -> Coupon:
        """The `coupon`, or else the next free code or the shared one, in its present state.

        Raises OutOfStock, CodeHeld or CouponLocked.
        """
        if coupon is not None:
            coupon = self.coupons[coupon.coupon_id]
            if book.type in PERSONAL_TYPES:
                self._refuse_held(member_id, coupon)
                if coupon.is_locked(self.at):
                    raise CouponLocked(f"The code {coupon.code} is locked. Release its lock, or wait until it ends.")
        elif book.type in PERSONAL_TYPES:
            coupon = self._take_next_code(book)
        else:
            shared_id = self.shared_coupon_ids.get(book.coupon_book_id)
            if shared_id is None:
                raise OutOfStock(f"The coupon book {book.name} has no code yet.")
            coupon = self.coupons[shared_id]
        limit = book.max_assigned_per_coupon
        # Locks of a `single` book reserve assignments of its one code. Locks of personal codes were checked above.
        reserved_stock = 0 if book.type in PERSONAL_TYPES else self.locked_stock.get(book.coupon_book_id, 0)
        if coupon.code is not None and limit is not None and coupon.total_assigned + reserved_stock + amount > limit:
            raise OutOfStock(
                f"A code may be assigned {limit} times, and this one has been assigned {coupon.total_assigned} times."
            )
        return coupon

    def _refuse_held(self, member_id: int, coupon: Coupon) -> None:
        """Raise CodeHeld if another member has the code."""
        member_coupon = self.member_coupons.get((member_id, coupon.coupon_id))
        own_assigned, own_used = (
            (ZERO, ZERO) if member_coupon is None else (member_coupon.amount_assigned, member_coupon.amount_used)
        )
        other_users = self._value_users.get(coupon.coupon_id, set()) - {member_id}
        if coupon.total_assigned > own_assigned or coupon.total_usages > own_used or other_users:
            raise CodeHeld(f"The code {coupon.code} was given to another member.")

    def _take_next_code(self, book: BookTerms) -> Coupon:
        """Take the next free code of a book; raises OutOfStock."""
        free_ids = self._free_ids.setdefault(book.coupon_book_id, [])
        while True:
            position = self._next_free_position.get(book.coupon_book_id, 0)
            if position == len(free_ids):
                further_codes = self._supply.supply_codes(book)
                if not further_codes:
                    # Codes that were requested by name, or reverted in this unit of work, were not fetched.
                    further_codes = free_codes_of(book, filter(self._is_free, self.coupons.values()))
                if not further_codes:
                    raise OutOfStock(f"All codes of the coupon book {book.name} are assigned or locked.")
                self.put_coupons(further_codes, are_new=book.type == GENERATED)
                free_ids.extend(coupon.coupon_id for coupon in further_codes)
                continue
            self.put(self._next_free_position, book.coupon_book_id, position + 1)
            coupon = self.coupons[free_ids[position]]
            # A request that named the code may have assigned it meanwhile.
            if self._is_free(coupon):
                return coupon

    def _is_free(self, coupon: Coupon) -> bool:
        """True if the code of a list can be assigned: it is free, and no part of its value was used."""
        return coupon.is_free(self.at) and coupon.coupon_id not in self._value_users

    # -- changing -----------------------------------------------------------------------------------------------------

    def add_amounts(
        self, member_id: int, coupon: Coupon, assigned_amount: Decimal, used_amount: Decimal, lot: CouponLot | None
    ) -> MemberCoupon:
        """Add to the amounts of a coupon, its book and its member; store `lot`, if any; return the member coupon."""
        if lot is not None:
            self.store_lot(lot)
        place = (member_id, coupon.coupon_id)
        before = self.member_coupons.get(place) or MemberCoupon.of_nothing(member_id, coupon, self.at)
        after = replace(
            before,
            amount_assigned=before.amount_assigned + assigned_amount,
            amount_used=before.amount_used + used_amount,
            updated_at=self.at,
            **({} if lot is None else lot.last_data),
        )
        book, present_coupon = self.books[coupon.coupon_book_id], self.coupons[coupon.coupon_id]
        lot_data = next_lot_data(self._unused_lots(member_id, coupon), after) if book.type in PERSONAL_TYPES else {}
        coupon_after = _with_changed_sums(present_coupon, assigned_amount, used_amount, lot_data)
        book_after = _with_changed_sums(book, assigned_amount, used_amount, changes={})
        totals = self.totals(member_id, book.coupon_book_id)
        totals_after = replace(totals, assigned=totals.assigned + assigned_amount)
        self.put_all(
            [
                (self.member_coupons, place, after),
                (self.coupons, coupon.coupon_id, coupon_after),
                (self.books, book.coupon_book_id, book_after),
                (self._totals, (member_id, book.coupon_book_id), totals_after),
            ]
        )
        return after

    def store_lot(self, lot: CouponLot) -> None:
        """Add a new lot, or replace a changed one."""
        lot_before = self.lots.get(lot.coupon_lot_id)
        if lot_before is None:
            self._index_lot(lot)
        elif lot.value is not None and lot_before.has_uses and not lot.amount:
            self.put_value_users([(lot.coupon_id, lot.member_id)])
        self.put(self.lots, lot.coupon_lot_id, lot)

    def _index_lot(self, lot: CouponLot) -> None:
        self._lots_of_book.setdefault((lot.member_id, lot.coupon_book_id), {})[lot.coupon_lot_id] = None
        self._lots_of_coupon.setdefault((lot.member_id, lot.coupon_id), {})[lot.coupon_lot_id] = None

    def _unused_lots(self, member_id: int, coupon: Coupon) -> list[CouponLot]:
        """The lots of a personal code (the code of one member) with an unused amount; all of them were loaded."""
        ids = self._lots_of_coupon.get((member_id, coupon.coupon_id), ())
        return [lot for lot_id in ids if (lot := self.lots.get(lot_id)) is not None and lot.unused_amount > 0]

    def count_use(
        self, member_id: int, book: BookTerms, used_amount: Decimal, discounted: Decimal, used_at: datetime
    ) -> None:
        """Count a use in the totals of the current periods if it took place in them; negative amounts revert one."""
        uses_since, discounts_since = period_starts(book, self.at, self.zone)
        if uses_since is None and discounts_since is None:
            return
        totals = self.totals(member_id, book.coupon_book_id)
        if uses_since is not None and used_at >= uses_since:
            totals = replace(totals, used=totals.used + used_amount)
        if discounts_since is not None and used_at >= discounts_since:
            totals = replace(totals, discounted=EXACT.add(totals.discounted, discounted))
        self.put(self._totals, (member_id, book.coupon_book_id), totals)

    def add_usage(self, usage: CouponUsage) -> CouponUsage:
        """Add a new usage, which may be reverted in the same unit of work."""
        self.new_usages.append(usage)
        self.put(self.usages, usage.coupon_usage_id, usage)
        return usage

    def link(self, usage: CouponUsage, reversal_id: int) -> None:
        """Link a usage to its reversal."""
        linked_usage = replace(usage, reversal_usage_id=reversal_id, updated_at=self.at)
        self.put(self.usages, usage.coupon_usage_id, linked_usage)

    def store_lock(self, lock: CouponLock) -> None:
        """Add a new lock, or replace one that has ended."""
        book_id, is_active = lock.coupon_book_id, lock.is_active(self.at)
        self.put(self.locks, lock.coupon_lock_id, lock)
        if lock.reserves_stock:
            self.put(self.locked_stock, book_id, self.locked_stock.get(book_id, 0) + (1 if is_active else -1))
            if self.books[book_id].type in PERSONAL_TYPES:
                locked_until = lock.expires_at if is_active else None
                coupon = replace(self.coupons[lock.coupon_id], locked_until=locked_until)
                self.put(self.coupons, lock.coupon_id, coupon)
        if is_active:
            book = self.books[book_id]
            last_end = max(filter(None, (book.locked_until, lock.expires_at)))
            self.put(self.books, book_id, replace(book, locked_until=last_end))

    def link_lock(self, lock: CouponLock, usage_id: int) -> None:
        """Link a lock that has ended to the use that ended it."""
        self.put(self.locks, lock.coupon_lock_id, replace(lock, coupon_usage_id=usage_id))

    def take_changes(self) -> CouponChanges:
        """Return the changes since the last call, sorted by id, and mark them as stored."""
        keys = self.take_changed_keys()
        changes = CouponChanges(
            books=_changed_records(self.books, keys),
            coupons=_changed_records(self.coupons, keys),
            member_coupons=_changed_records(self.member_coupons, keys),
            lots=_changed_records(self.lots, keys),
            usages=_changed_records(self.usages, keys),
            locks=_changed_records(self.locks, keys),
            new_coupon_ids=frozenset(self.new_coupon_ids),
            new_usage_ids=frozenset([usage.coupon_usage_id for usage in self.new_usages]),
            original_books=self.original_books,
            original_coupons=self.original_coupons,
        )
        self.new_usages.clear()
        self.original_books, self.original_coupons = dict(self.books), dict(self.coupons)
        # Generated codes that were not assigned yet still have to be stored.
        self.new_coupon_ids -= keys.get(id(self.coupons), set())
        return changes


def _changed_records(store: dict[Key, Record], keys: Mapping[int, Collection[Any]]) -> list[Record]:
    """The values of the changed keys, given by the store's `id`, in the order of the keys."""
    return list(map(store.__getitem__, sorted(keys.get(id(store), ()))))


def _with_changed_sums(record: Any, assigned_amount: Decimal, used_amount: Decimal, changes: Mapping[str, Any]) -> Any:
    """The book or coupon with both amounts added to its sums, and with further `changes` of fields."""
    total_assigned, total_usages = record.total_assigned + assigned_amount, record.total_usages + used_amount
    return replace(record, total_assigned=total_assigned, total_usages=total_usages, **changes)


_NOTHING = UsageTotals()
