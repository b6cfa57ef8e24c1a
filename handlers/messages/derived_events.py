"""The payloads of events that the server itself reports (integration 6)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from domain.badges import BadgeTracking
from domain.calendar import instant_text
from domain.coupons.books import BookTerms
from domain.coupons.usages import CouponUsage
from domain.ledger.availability import NOT_CONFIRMED
from domain.ledger.postings import Posting
from domain.ledger.records import TRANSACTION_TYPES, LedgerAccount
from domain.tiers import HeldTier, TierSchedule
from handlers.messages.badges import TRACKING
from handlers.messages.base import Shape
from handlers.messages.json_text import exact_number


def tier_payload(
    schedule: TierSchedule,
    tier_keys: Mapping[int, str],
    previous_tier_id: int | None,
    tier: HeldTier | None,
) -> dict[str, Any]:
    """The payload of `member-tier-set`, and of `member-tier-removed` if the new `tier` is None.

    `previous_tier_id` is None for a member who had no tier.
    """
    tier_id, expires_at = (None, None) if tier is None else (tier.loyalty_tier_id, tier.expires_at)
    return {
        "loyaltyProgramId": schedule.loyalty_program_id,
        "loyaltyProgramKey": schedule.loyalty_program_key,
        "loyaltyTierId": tier_id,
        "loyaltyTierKey": None if tier_id is None else tier_keys.get(tier_id),
        "previousLoyaltyTierId": previous_tier_id,
        "previousLoyaltyTierKey": None if previous_tier_id is None else tier_keys.get(previous_tier_id),
        "isManual": tier is not None and tier.is_manual,
        "expiresAt": None if expires_at is None else instant_text(expires_at),
    }


def transaction_payload(posting: Posting, ledger_transaction_id: int | None) -> dict[str, Any]:
    """The payload of `ledger-transaction-created`; in a dry run the id is None."""
    details = posting.details
    return {
        "ledgerTransaction": {
            "ledgerTransactionId": ledger_transaction_id,
            "ledgerId": posting.account.ledger_id,
            "ledgerAccountId": posting.account.ledger_account_id,
            "ledgerAccountKey": posting.account.ledger_account_key,
            "transactionType": TRANSACTION_TYPES[posting.transaction_type],
            "status": posting.status,
            "amount": exact_number(posting.amount),
            "fromWalletId": posting.from_wallet_id,
            "toWalletId": posting.to_wallet_id,
            "systemUniqueKey": details.system_unique_key,
            "externalId": details.external_id,
            "externalEventDate": (
                None if details.external_event_date is None else instant_text(details.external_event_date)
            ),
            "description": details.description,
            "tags": list(details.tags or ()),
        }
    }


class SettledMint(NamedTuple):
    """A mint that waits no longer, and the order that it was for, if any; a new mint of a dry run has no id."""

    ledger_transaction_id: int | None
    amount: Decimal
    order_external_id: str | None
    expires_at: datetime | None


_AVAILABLE_LOT = Shape(SettledMint, without=("order_external_id",))
_CANCELLED_LOT = Shape(SettledMint, only=("ledger_transaction_id", "amount"))


def available_payload(account: LedgerAccount, mints: Sequence[SettledMint], available_at: datetime) -> dict[str, Any]:
    """The payload of `points-available` about mints of an account that became available at a moment."""
    return {
        "ledgerAccountKey": account.ledger_account_key,
        "amount": _total_of(mints),
        "availableAt": instant_text(available_at),
        "orderExternalIds": _orders_of(mints),
        "lots": list(map(_AVAILABLE_LOT, mints)),
    }


def cancelled_payload(account: LedgerAccount, mints: Sequence[SettledMint], cancelled_at: datetime) -> dict[str, Any]:
    """The payload of `points-cancelled` about mints that waited for an event, but no event confirmed them in time."""
    return {
        "ledgerAccountKey": account.ledger_account_key,
        "amount": _total_of(mints),
        "cancelledAt": instant_text(cancelled_at),
        "reason": NOT_CONFIRMED,
        "orderExternalIds": _orders_of(mints),
        "lots": list(map(_CANCELLED_LOT, mints)),
    }


def _total_of(mints: Sequence[SettledMint]) -> Any:
    return exact_number(sum((mint.amount for mint in mints), Decimal(0)))


def _orders_of(mints: Sequence[SettledMint]) -> list[str]:
    order_ids = (mint.order_external_id for mint in mints)
    return list(dict.fromkeys(order_id for order_id in order_ids if order_id is not None))


def expiring_payload(account: LedgerAccount, amount: Decimal, expires_at: datetime, days_before: int) -> dict[str, Any]:
    """The payload of `points-expiring`."""
    return {
        "ledgerAccountKey": account.ledger_account_key,
        "amount": exact_number(amount),
        "expiresAt": instant_text(expires_at),
        "daysBefore": days_before,
    }


def expired_payload(account: LedgerAccount, amount: Decimal, expired_at: datetime) -> dict[str, Any]:
    """The payload of `points-expired`."""
    return {
        "ledgerAccountKey": account.ledger_account_key,
        "amount": exact_number(amount),
        "expiredAt": instant_text(expired_at),
    }


def badge_payload(tracking: BadgeTracking, is_dry_run: bool) -> dict[str, Any]:
    """The payload of `badge-assigned` and `badge-unassigned`; in a dry run the ids are null."""
    tracking_json = TRACKING.dump(tracking)
    if is_dry_run:
        tracking_json |= {"badgeTrackingId": None, "badgeTrackingKey": None, "revertedBadgeTrackingId": None}
    return {"badgeTracking": tracking_json}


def moved_coupon(usage: CouponUsage) -> dict[str, Any]:
    """A coupon that an effect assigned or used; in a dry run without code and key, since no coupon is assigned."""
    # The usages of a dry run have negative ids.
    is_stored = usage.coupon_usage_id > 0
    return {
        "couponUsageKey": usage.coupon_usage_key if is_stored else None,
        "couponBookKey": usage.coupon_book_key,
        "code": usage.code if is_stored else None,
        "amountAssigned": exact_number(usage.amount_assigned),
        "amountUsed": exact_number(usage.amount_used),
    }


def coupon_payload(usage: CouponUsage, book: BookTerms) -> dict[str, Any]:
    """The payload of `coupon-code-assigned`, `coupon-code-used` and `benefit-used`; in a dry run the ids are null."""
    # The usages and new coupons of a dry run have negative ids.
    is_stored = usage.coupon_usage_id > 0
    discounted = usage.amount_discounted
    return {
        "couponUsage": {
            "couponUsageId": usage.coupon_usage_id if is_stored else None,
            "couponUsageKey": usage.coupon_usage_key if is_stored else None,
            "couponBookId": book.coupon_book_id,
            "couponBookKey": book.coupon_book_key,
            "type": book.type,
            "tags": list(book.tags),
            "couponId": usage.coupon_id if usage.coupon_id > 0 else None,
            "code": usage.code,
            "systemUniqueKey": usage.system_unique_key,
            "externalId": usage.external_id,
            "description": usage.description,
            "customAttributes": usage.custom_attributes,
            "amountAssigned": exact_number(usage.amount_assigned),
            "amountUsed": exact_number(usage.amount_used),
            "amountDiscounted": None if discounted is None else exact_number(discounted),
            "ledgerTransactionId": usage.ledger_transaction_id,
        }
    }
