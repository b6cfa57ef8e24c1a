"""Reads members' lots in the order of use, and no more of them than are needed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from domain.coupons.lots import CouponLot, order_of_use

_FIRST, _FACTOR = 1, 8


@dataclass(frozen=True, slots=True)
class LotRange:
    """The lots that a use may take from: those of a book, or of one of its coupons, with or without expired ones.

    They belong to one member, and each has an amount left.
    """

    coupon_book_id: int
    coupon_id: int | None
    with_expired: bool

    def contains(self, lot: CouponLot, at: datetime) -> bool:
        """True if a lot of the book belongs to the range at `at`."""
        is_wanted = self.coupon_id in (None, lot.coupon_id) and lot.left > 0
        return is_wanted and (self.with_expired or not lot.has_expired(at))


class LotSource(Protocol):
    """A store of lots."""

    @property
    def member_ids(self) -> Collection[int]:
        """The members of the unit of work."""

    def lots(self, among: LotRange, after: Mapping[int, CouponLot | None], limit: int) -> Sequence[CouponLot]:
        """Up to `limit` lots of each member, in the order of use; `after` is the member's last lot read so far."""


class LotReading:
    """The lots of each range read so far; the locks of the unit of work keep the others unchanged."""

    def __init__(self, source: LotSource) -> None:
        self._source = source
        self._last: dict[tuple[LotRange, int], CouponLot] = {}
        self._complete: set[tuple[LotRange, int]] = set()
        self._limits: dict[LotRange, int] = {}

    def is_next(self, member_id: int, among: LotRange, lot: CouponLot | None) -> bool:
        """True if `lot`, the first one read, precedes all lots not read yet; None is the end of the lots."""
        place = among, member_id
        if place in self._complete:
            return True
        last = self._last.get(place)
        return lot is not None and last is not None and order_of_use(lot) <= order_of_use(last)

    def further(self, member_id: int, among: LotRange, count: int) -> list[CouponLot]:
        """Read the next lots of the range, at least `count` if there are so many.

        They are read for all members of the unit of work, each time eight times as many as before, so that the number
        of statements hardly grows with the amount used.
        """
        places = {(among, holder_id) for holder_id in (member_id, *self._source.member_ids)} - self._complete
        limit = max(count, self._limits.get(among, _FIRST))
        self._limits[among] = _FACTOR * limit
        lots = self._source.lots(among, {place[1]: self._last.get(place) for place in places}, limit)
        read: dict[int, list[CouponLot]] = {}
        for lot in lots:
            read.setdefault(lot.member_id, []).append(lot)
        for place in places:
            own = read.get(place[1], [])
            if own:
                self._last[place] = max(own, key=order_of_use)
            if len(own) < limit:
                self._complete.add(place)
        return list(lots)
