"""Rows about coupons and badges of a member."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from domain.calendar import instant_text
from domain.timeline.rows import BADGE, COUPON, COUPON_LOCK, TimelineRow, after_colon, amount_text


@dataclass(frozen=True, slots=True)
class CouponFact:
    """An assignment or a use of a coupon, or the reversal of one; reversals have negative amounts."""

    coupon_usage_id: int
    created_at: datetime
    coupon_usage_key: str
    coupon_book_id: int
    coupon_book_key: str
    book_name: str
    amount_assigned: Decimal
    amount_used: Decimal
    amount_discounted: Decimal | None
    reverted_usage_id: int | None
    reversal_usage_id: int | None
    description: str | None
    loyalty_event_id: int | None

    def row(self, changed_by: str | None = None) -> TimelineRow:
        """The row of the usage."""
        amount = self.amount_used or self.amount_assigned
        times = "" if abs(amount) <= 1 else f" {amount_text(abs(amount))} times"
        # A use that leaves something of a value coupon moves no amount.
        is_part = not amount
        is_use = is_part or self.amount_used != 0
        change = f"used{' in part' if is_part else times}" if is_use else f"assigned{times}"
        if self.reverted_usage_id is not None:
            change = f"given back{times} after its use was reverted" if is_use else f"taken away again{times}"
        text = f"The coupon {self.book_name} was {change}{after_colon(self.description)}."
        details = {
            "couponUsageId": self.coupon_usage_id,
            "couponUsageKey": str(self.coupon_usage_key),
            "couponBookId": self.coupon_book_id,
            "couponBookKey": str(self.coupon_book_key),
            "amountAssigned": self.amount_assigned,
            "amountUsed": self.amount_used,
            "amountDiscounted": self.amount_discounted,
            "revertedUsageId": self.reverted_usage_id,
            "reversalUsageId": self.reversal_usage_id,
        }
        at, is_reversed = self.created_at, self.reversal_usage_id is not None
        return TimelineRow(
            kind=COUPON,
            recorded_at=at,
            happened_at=at,
            text=text,
            by=changed_by,
            loyalty_event_id=self.loyalty_event_id,
            is_reversed=is_reversed,
            details=details,
        )


@dataclass(frozen=True, slots=True)
class CouponLockFact:
    """A lock of a coupon, with its end by a use or a release."""

    coupon_lock_id: int
    created_at: datetime
    coupon_lock_key: str
    coupon_book_id: int
    coupon_book_key: str
    book_name: str
    expires_at: datetime
    ended_at: datetime | None
    coupon_usage_id: int | None
    loyalty_event_id: int | None = None

    def row(self, changed_by: str | None = None) -> TimelineRow:
        """The row of the lock."""
        is_released = self.ended_at is not None and self.coupon_usage_id is None
        end = ", and released" if is_released else "" if self.ended_at is None else ", and used"
        text = f"The coupon {self.book_name} was locked until {instant_text(self.expires_at)}{end}."
        details = {
            "couponLockKey": str(self.coupon_lock_key),
            "couponBookId": self.coupon_book_id,
            "couponBookKey": str(self.coupon_book_key),
            "expiresAt": instant_text(self.expires_at),
            "couponUsageId": self.coupon_usage_id,
        }
        at = self.created_at
        return TimelineRow(
            COUPON,
            recorded_at=at,
            happened_at=at,
            text=text,
            by=changed_by,
            loyalty_event_id=None,
            is_reversed=is_released,
            details=details,
            details_name=COUPON_LOCK,
        )


@dataclass(frozen=True, slots=True)
class BadgeFact:
    """One change of how many of a badge the member holds."""

    badge_tracking_id: int
    created_at: datetime
    badge_tracking_key: str
    badge_id: int
    badge_key: str
    badge_name: str
    amount: int
    balance: int
    reverted_badge_tracking_id: int | None
    reversal_badge_tracking_id: int | None
    loyalty_event_id: int | None

    def row(self, changed_by: str | None = None) -> TimelineRow:
        """The row of the badge tracking."""
        times = "" if abs(self.amount) == 1 else f" {abs(self.amount)} times"
        participle = "received" if self.amount > 0 else "taken away"
        why = "" if self.reverted_badge_tracking_id is None else " by a reversal"
        text = f"The badge {self.badge_name} was {participle}{times}{why}; the member holds {self.balance}."
        details = {
            "badgeTrackingId": self.badge_tracking_id,
            "badgeTrackingKey": str(self.badge_tracking_key),
            "badgeId": self.badge_id,
            "badgeKey": str(self.badge_key),
            "amount": self.amount,
            "balance": self.balance,
            "revertedBadgeTrackingId": self.reverted_badge_tracking_id,
            "reversalBadgeTrackingId": self.reversal_badge_tracking_id,
        }
        at, is_reversed = self.created_at, self.reversal_badge_tracking_id is not None
        return TimelineRow(
            kind=BADGE,
            recorded_at=at,
            happened_at=at,
            text=text,
            by=changed_by,
            loyalty_event_id=self.loyalty_event_id,
            is_reversed=is_reversed,
            details=details,
        )
