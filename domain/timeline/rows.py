"""The rows of timelines, their kinds, and the parts of their sentences."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

EVENT, POINTS, COUPON, BADGE, TIER = "event", "points", "coupon", "badge", "tier"
MISSION, REFERRAL, PROFILE, MESSAGE = "mission", "referral", "profile", "message"
# Rows of the kind `coupon` with facts of their own.
COUPON_LOCK = "couponLock"
# Rows of the kind `points` with facts of their own.
POINTS_RELEASE = "pointsRelease"
# In the order of rows of the same moment and event, the first at the top.
KINDS = (EVENT, TIER, MISSION, REFERRAL, COUPON, BADGE, POINTS, PROFILE, MESSAGE)

# Events that the server derives from other records, which have their own rows.
DERIVED_TYPES = (
    "member-tier-set",
    "member-tier-removed",
    "coupon-code-assigned",
    "coupon-code-used",
    "benefit-used",
    "badge-assigned",
    "badge-unassigned",
    "mission-status-updated",
    "ledger-transaction-created",
    "points-available",
    "points-cancelled",
    "points-expired",
)


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One row: when it was recorded, when it happened, one sentence, and the ids of its kind in `details`.

    `by` is the caller of the request, None if the server itself caused it or the caller is not known.
    """

    kind: str
    recorded_at: datetime
    happened_at: datetime
    text: str
    by: str | None
    loyalty_event_id: int | None
    is_reversed: bool
    details: Mapping[str, Any]
    # The name of the details, if it is not the kind.
    details_name: str | None = None


def amount_text(amount: Decimal) -> str:
    """An amount as people write it: without zeros at its end, with commas between thousands."""
    text = f"{amount:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def without_full_stop(text: str) -> str:
    """The text without its final full stops, so that a sentence can end with it."""
    return text.strip().rstrip(".")


def after_colon(text: str | None) -> str:
    """The text preceded by a colon, or the empty text."""
    return f": {without_full_stop(text)}" if text else ""
