"""Loads coupons into a unit of work: books with the coupons of the members, and further codes; stores the changes."""

from __future__ import annotations

import secrets
import weakref
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from domain.coupons.books import LIST, BookTerms, Coupon, UnknownCouponBook, pattern_of, stock_left
from domain.coupons.lots import CouponLot, LotRange, period_starts
from domain.coupons.state import PERSONAL_TYPES, CouponChanges, CouponState
from domain.coupons.usages import CouponUsage
from domain.scalars import is_key
from persistence.coupons import holdings, usages
from persistence.coupons.usages import USAGES
from persistence.rows import DryRunIds, IdAllocator, defer_joined

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork

_RANDOM = secrets.SystemRandom()
# The maximum number of codes that one call of `supply_codes` returns.
_MAX_CODES_AT_ONCE = 1024
ZERO = Decimal(0)


class CouponLoader:
    """Fills the coupon state of a unit of work; it always loads for all members of the unit at once."""

    def __init__(self, unit: UnitOfWork) -> None:
        self._unit = unit
        self._db = unit.db
        self._organization_id = unit.organization_id
        self._is_dry_run = unit.is_dry_run
        # A weak reference, so that nothing of the unit waits for the garbage collector once the unit is done.
        self.state = CouponState(unit.now, weakref.proxy(self), unit.organization.zone)
        # The members of the unit, whose lots are read at once.
        self.member_ids: Collection[int] = unit.members
        self.usage_ids, self.lock_ids, self._coupon_ids = [
            DryRunIds() if unit.is_dry_run else IdAllocator(unit.db, table, 1)
            for table in ("coupon_usages", "coupon_locks", "coupons")
        ]
        self._locked_book_ids: set[int] = set()
        self._book_ids_by_key: dict[str, int] = {}
        # By book: the number of codes that `supply_codes` returns next.
        self._expected_codes: dict[int, int] = {}

    def expect_usages(
        self, count: int, code_counts: Mapping[int, int] | None = None, reserved_ids: Sequence[int] = ()
    ) -> None:
        """Prepare for `count` usages and transactions, so that few statements reserve their ids.

        `code_counts` has the number of new codes by book id; `reserved_ids` are already reserved usage ids.
        """
        self.usage_ids.expect(count)
        self.usage_ids.add_reserved(reserved_ids)
        self._unit.transaction_allocator.expect(count)
        if code_counts:
            self._expected_codes.update(code_counts)
            self._coupon_ids.expect(sum(code_counts.values()))

    def find_book(self, *, key: str | None = None, coupon_book_id: int | None = None) -> BookTerms:
        """Find a book by its key or id; load it with the members' coupons at first use. Raises UnknownCouponBook."""
        books = self.state.books
        lower_key = (key or "").lower()
        book_id = self._book_ids_by_key.get(lower_key, coupon_book_id)
        if book_id not in books:
            self.load(() if coupon_book_id is None else [coupon_book_id], [lower_key] if is_key(lower_key) else ())
            book_id = self._book_ids_by_key.get(lower_key, coupon_book_id)
        if book_id is None or book_id not in books:
            raise UnknownCouponBook(f"There is no coupon book {key or coupon_book_id}.")
        return books[book_id]

    def load(
        self, ids: Collection[int] = (), keys: Collection[str] = (), other_member_ids: Collection[int] = ()
    ) -> None:
        """Load books, with the coupons of the members of the unit and of `other_member_ids`."""
        if not (ids or keys):
            return
        organization_id, state = self._organization_id, self.state
        members = {*self._unit.members, *other_member_ids}
        books = holdings.find_books(self._db, organization_id, ids=ids, keys=keys, lock=not self._is_dry_run)
        if not books:
            return
        personal_ids = [book.coupon_book_id for book in books if book.type in PERSONAL_TYPES]
        shared_ids = [book.coupon_book_id for book in books if book.type not in PERSONAL_TYPES]
        starts_by_book = {book.coupon_book_id: period_starts(book, state.at, state.zone) for book in books}
        assigned_amounts = (
            holdings.find_assigned_amounts(self._db, organization_id, members, personal_ids) if personal_ids else {}
        )
        held_coupons = (
            holdings.find_shared_coupons(self._db, organization_id, members, shared_ids) if shared_ids else ()
        )
        for book in books:
            state.put_book(book)
            self._book_ids_by_key[book.coupon_book_key] = book.coupon_book_id
        for coupon, member_coupon in held_coupons:
            state.put_coupons([coupon])
            if member_coupon is not None:
                state.put_member_coupons([member_coupon])
                member_and_book = member_coupon.member_id, member_coupon.coupon_book_id
                amount_before = assigned_amounts.get(member_and_book, ZERO)
                assigned_amounts[member_and_book] = amount_before + member_coupon.amount_assigned
        totals = holdings.find_usage_totals(self._db, organization_id, members, assigned_amounts, starts_by_book)
        state.put_totals(totals)
        self._load_locks(books)

    def _load_locks(self, books: Collection[BookTerms]) -> None:
        """Load the active locks of books that may have some."""
        at = self.state.at
        book_ids = [book.coupon_book_id for book in books if book.locked_until is not None and book.locked_until > at]
        if book_ids:
            members = self._unit.members
            self.state.put_locks(*holdings.find_active_locks(self._db, self._organization_id, members, book_ids, at))

    def lock_stock(self, book: BookTerms) -> BookTerms:
        """Lock the book exclusively if its stock is limited; return it."""
        if book.coupon_book_id not in self._locked_book_ids:
            self._locked_book_ids.add(book.coupon_book_id)
            # The stock of a list is its codes, which are locked one by one.
            is_limited = book.type != LIST and stock_left(book) is not None
            if is_limited and not self._is_dry_run:
                self.state.put_book(holdings.lock_book(self._db, book))
                self._load_locks([self.state.books[book.coupon_book_id]])
        return self.state.books[book.coupon_book_id]

    def load_by_code(self, book: BookTerms, codes: Collection[str], coupon_ids: Collection[int] = ()) -> None:
        """Load coupons of the book that are requested by code or id, with their assignments to the members."""
        lock = book.type in PERSONAL_TYPES and not self._is_dry_run
        coupons = holdings.find_coupons(self._db, book, codes, coupon_ids, lock=lock)
        self.state.put_coupons(coupons)
        ids = [coupon.coupon_id for coupon in coupons]
        self._load_held_coupons(self._unit.members, ids)
        if book.is_value_coupon and book.type in PERSONAL_TYPES:
            self.state.put_value_users(usages.find_value_users(self._db, self._organization_id, ids))

    def load_revertible(self, usages_to_revert: Collection[CouponUsage]) -> None:
        """Load usages that may be reverted, with their books, and the members' lots of their coupons."""
        if not usages_to_revert:
            return
        member_ids = {usage.member_id for usage in usages_to_revert}
        missing_ids = {usage.coupon_book_id for usage in usages_to_revert} - set(self.state.books)
        if missing_ids:
            self.load(ids=sorted(missing_ids), other_member_ids=member_ids)
        coupon_ids = {usage.coupon_id for usage in usages_to_revert}
        self._load_held_coupons(member_ids, coupon_ids)
        self.state.usages.update({usage.coupon_usage_id: usage for usage in usages_to_revert})
        self._load_moved_lots(usages_to_revert)

    def _load_held_coupons(self, member_ids: Collection[int], coupon_ids: Collection[int]) -> None:
        """Load what the members hold of the coupons, with the coupons and their lots."""
        if not coupon_ids:
            return
        held_coupons = holdings.find_held_coupons(self._db, self._organization_id, member_ids, coupon_ids)
        for member_coupon, coupon, lot in held_coupons:
            self.state.put_coupons([coupon])
            self.state.put_member_coupons([member_coupon])
            self.state.put_lots([] if lot is None else [lot])

    def _load_moved_lots(self, moving_usages: Collection[CouponUsage]) -> None:
        """Load the lots that the usages moved, and the assignments that can still be reverted in part."""
        lot_ids = {usage.coupon_lot_id for usage in moving_usages if usage.coupon_lot_id is not None}
        lot_ids -= set(self.state.lots)
        if not lot_ids:
            return
        self.state.put_lots(holdings.LOTS.find_all(self._db, self._organization_id, coupon_lot_id=lot_ids))
        owing_ids = {lot_id for lot_id in lot_ids if self.state.lots[lot_id].amount_owed} - set(self.state.usages)
        if owing_ids:
            # The id of a lot is the id of its assignment.
            assignments = USAGES.find_all(self._db, self._organization_id, coupon_usage_id=owing_ids)
            self.state.usages.update({usage.coupon_usage_id: usage for usage in assignments})

    def supply_codes(self, book: BookTerms) -> list[Coupon]:
        """Lock free codes of a list, or create codes of a generated book; return them.

        The first call for a book returns the expected number of codes, each further call twice as many as the call
        before, at most `_MAX_CODES_AT_ONCE`. Fewer are returned if a list has too few free codes.
        """
        count = min(self._expected_codes.get(book.coupon_book_id, 1), _MAX_CODES_AT_ONCE)
        self._expected_codes[book.coupon_book_id] = 2 * count
        if book.type == LIST:
            loaded_ids = [coupon.coupon_id for coupon in self.state.coupons.values()]
            return holdings.claim_free_codes(
                self._db, book, count, loaded_ids, self.state.at, lock=not self._is_dry_run
            )
        return self._create_coupons(book, count)

    def find_lots(self, lot_range: LotRange, after: Mapping[int, CouponLot | None], limit: int) -> list[CouponLot]:
        """Find up to `limit` further lots of each member, in the order of use, after the member's last lot in `after`.

        For personal codes that are not loaded yet, also loads the coupons with all their lots.
        """
        lots = holdings.find_next_lots(self._db, self._organization_id, lot_range, after, self.state.at, limit)
        if self.state.books[lot_range.coupon_book_id].type in PERSONAL_TYPES:
            ids = {lot.coupon_id for lot in lots if (lot.member_id, lot.coupon_id) not in self.state.member_coupons}
            self._load_held_coupons(after.keys(), ids)
        return lots

    def _create_coupons(self, book: BookTerms, count: int) -> list[Coupon]:
        """Create coupons with random codes that the book does not have yet.

        If another transaction stores one of these codes first, this one fails, and a retry draws other codes.
        """
        pattern = pattern_of(book.code_pattern)
        codes = set[str]()
        while len(codes) < count:
            drawn_codes = {pattern.draw(_RANDOM) for _ in range(count - len(codes))} - codes
            codes |= drawn_codes - holdings.find_existing_codes(self._db, book, drawn_codes)
        now = self._unit.now
        return [
            Coupon(
                organization_id=book.organization_id,
                coupon_id=self._coupon_ids.take(),
                coupon_book_id=book.coupon_book_id,
                # `holdings.add_coupons` sets the position.
                position=0,
                code=code,
                total_assigned=ZERO,
                total_usages=ZERO,
                custom_attributes={},
                expired_at=None,
                locked_until=None,
                created_at=now,
                updated_at=now,
            )
            for code in codes
        ]

    def flush(self) -> None:
        """Store the changes since the last flush, in a fixed number of statements."""
        db = self._db
        organization_id = self._organization_id
        changes = self.state.take_changes()
        if not (
            changes.books
            or changes.coupons
            or changes.usages
            or changes.member_coupons
            or changes.lots
            or changes.locks
        ):
            return
        new_coupons = [coupon for coupon in changes.coupons if coupon.coupon_id in changes.new_coupon_ids]
        new_codes = Counter([coupon.coupon_book_id for coupon in new_coupons])
        new_usages = [usage for usage in changes.usages if usage.coupon_usage_id in changes.new_usage_ids]
        # Stored usages that were reverted are linked to their reversals.
        reverted_usages = [usage for usage in changes.usages if usage.coupon_usage_id not in changes.new_usage_ids]
        additions = {}
        for book in changes.books:
            added_assigned, added_used = _increase(book, changes.original_books[book.coupon_book_id])
            new_code_count = new_codes[book.coupon_book_id]
            additions[book.coupon_book_id] = holdings.BookAddition(
                added_assigned, added_used, new_code_count, book.locked_until
            )
        personal_rows, shared_rows = self._coupon_rows(changes)
        # In the order of `persistence.locks`: personal coupons before their book, shared coupons after it.
        if personal_rows:
            holdings.add_to_coupons(db, organization_id, personal_rows, are_personal=True)
        if new_coupons:
            counts = holdings.add_to_books_and_count(db, organization_id, additions)
            counts_before = {book_id: counts[book_id] - additions[book_id].coupon_count for book_id in counts}
            holdings.add_coupons(db, new_coupons, counts_before)
        else:
            holdings.add_to_books(db, organization_id, additions)
        if shared_rows:
            holdings.add_to_coupons(db, organization_id, shared_rows, are_personal=False)
        statements = holdings.statements_to_store(changes.member_coupons, changes.lots)
        if changes.locks:
            statements += holdings.statements_to_store_locks(changes.locks)
        usage_statements = usages.additions_of(new_usages) + usages.links_of(organization_id, reverted_usages)
        defer_joined(db, usage_statements + statements)

    def _coupon_rows(self, changes: CouponChanges) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
        """The rows that add to the totals of stored coupons: first of personal coupons, then of shared ones.

        `total_assigned` and `total_usages` of a row are not the new totals, but what is added to them.
        """
        personal_rows: list[dict[str, object]] = []
        shared_rows: list[dict[str, object]] = []
        for coupon in changes.coupons:
            if coupon.coupon_id not in changes.new_coupon_ids:
                is_personal = self.state.books[coupon.coupon_book_id].type in PERSONAL_TYPES
                added_assigned, added_used = _increase(coupon, changes.original_coupons[coupon.coupon_id])
                row = {"coupon_id": coupon.coupon_id, "total_assigned": added_assigned, "total_usages": added_used}
                if is_personal:
                    row |= {"custom_attributes": coupon.custom_attributes, "expired_at": coupon.expired_at}
                    row["locked_until"] = coupon.locked_until
                rows = personal_rows if is_personal else shared_rows
                rows.append(row)
        return personal_rows, shared_rows


def _increase(after: BookTerms | Coupon, before: BookTerms | Coupon) -> tuple[Decimal, Decimal]:
    """The increases of the assigned amount and of the used amount."""
    return after.total_assigned - before.total_assigned, after.total_usages - before.total_usages
