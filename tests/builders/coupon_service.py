"""A coupon service without a database: one book, whose codes are loaded two at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from types import SimpleNamespace

from domain.coupons.books import Coupon
from domain.coupons.charges import UsageDetails
from domain.coupons.commands import Assignment, Lock, Use
from domain.coupons.eligibility import MemberFacts
from domain.coupons.service import CouponService
from domain.coupons.state import CouponState
from domain.problems import Conflict
from tests.builders.coupon_values import coupon_book

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)
ANA, BEN = SimpleNamespace(member_id=1, wallet_id=1), SimpleNamespace(member_id=2, wallet_id=2)
# The details of a request that sends none.
NO_DETAILS = UsageDetails()


class PointsCharge:
    """Records in `payments` the points of each call: those of its details, or else the price.

    Refuses if `refuses` is set.
    """

    def __init__(self):
        self.payments, self.refuses = [], False

    def pay(self, wallet_id, book, price, details, usage_key):
        if self.refuses:
            raise Conflict("no points")
        self.payments.append(price if details.points_override is None else details.points_override)

    def reverse(self, ledger_transaction_id, details, usage_key):
        raise AssertionError("no points were taken")


class Shop:
    """A coupon service with one book of id 12, which has the codes C-1, C-2 ... C-`codes`; keywords are its settings.

    The shop is the supply of its own state and brings two codes at a time.
    """

    def __init__(self, *, codes=6, **settings):
        self.codes = [self.coupon(n, f"C-{n}") for n in range(1, codes + 1)]
        self.book = coupon_book(**settings)
        self.state, self.charge = CouponState(NOW, self), PointsCharge()
        self.state.put_book(self.book)
        self._lock_ids = count(1)
        numbers, keys = count(1), count(1)
        self.service = CouponService(
            self.state,
            self.charge,
            facts=lambda member, book: MemberFacts(at=NOW),
            new_key=lambda: f"key-{next(keys)}",
            new_usage_id=lambda: next(numbers),
        )

    @property
    def stored_book(self):
        """The book with its present totals, whereas `book` has those of the beginning."""
        return self.state.books[self.book.coupon_book_id]

    def coupon(self, number, code):
        """A new coupon of the book whose id and position are the number."""
        return Coupon(
            organization_id=1,
            coupon_id=number,
            coupon_book_id=12,
            position=number,
            code=code,
            total_assigned=Decimal(0),
            total_usages=Decimal(0),
            custom_attributes={},
            expired_at=None,
            locked_until=None,
            created_at=NOW,
            updated_at=NOW,
        )

    # What the state asks its supply: no lots are stored, and there are always further codes until all are used up.
    member_ids = ()

    def find_lots(self, among, after, limit):
        return []

    def supply_codes(self, book):
        codes, self.codes = self.codes[:2], self.codes[2:]
        return codes

    def assign(self, member=ANA, details=NO_DETAILS, **command):
        """Assign coupons of the book to a member, by default one to Ana; return what the service returns."""
        return self.service.assign(member, self.book, Assignment(**command), details)

    def use(self, member=ANA, details=NO_DETAILS, **command):
        """Use a coupon of the book by a member; return what the service returns."""
        return self.service.use(member, self.book, Use(**command), details)

    def lock(self, member=ANA, ends_in=timedelta(minutes=30), **command):
        """Lock a coupon of the book for a member until `ends_in` after NOW; return what the service returns."""
        number = next(self._lock_ids)
        request = Lock(NOW + ends_in, f"lock-{number}", b"digest", **command)
        return self.service.lock(member, self.book, request, f"lock-key-{number}", number)

    def use_locked(self, lock, member=ANA, **command):
        """Use the coupon of a lock and so end the lock."""
        self.service.end_lock(lock)
        return self.use(member, coupon=self.state.coupons[lock.coupon_id], auto_assign=lock.reserves_stock, **command)

    def totals_of_ana(self):
        """The sums of Ana's usages of the book."""
        return self.state.totals(ANA.member_id, self.book.coupon_book_id)

    def snapshot(self):
        """The coupons of members and the lots, the totals of coupons and of the book, and the new usages."""
        return (
            (dict(self.state.member_coupons), dict(self.state.lots)),
            {key: (coupon.total_assigned, coupon.total_usages) for key, coupon in self.state.coupons.items()},
            self.stored_book.total_assigned,
            list(self.state.new_usages),
        )


def shared_coupon(**settings):
    """A shop with one coupon for all."""
    shop = Shop(type="single", coupon_count=1, **settings)
    shop.state.put_coupons(shop.codes[:1])
    return shop
