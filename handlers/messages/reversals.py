"""Reversed parts of events, on the wire (integration 4.6, item 3)."""

from typing import Any

from domain.badges import BadgeTracking
from domain.coupons.usages import CouponUsage
from domain.events import LoyaltyEvent
from domain.ledger.records import TRANSACTION_TYPES
from domain.referrals import ReferralLog
from domain.reversals import ReversedPart, RevertedEvent, RevertedTransaction
from domain.tier_log import TierTracking
from handlers.messages.base import Shape
from handlers.messages.events import limit_counter
from handlers.messages.json_text import exact_number

# The kinds of reversed parts besides points and limits; the response has a list for each kind.
TIERS, BADGES, COUPONS, MISSIONS, REFERRALS = "tiers", "badges", "coupons", "missions", "referrals"
UNDONE_KINDS = (TIERS, BADGES, COUPONS, MISSIONS, REFERRALS)

_EVENT = Shape(
    LoyaltyEvent, only=("loyalty_event_id", "loyalty_event_key", "system_unique_key", "event_type", "member_id")
)


def reverted_event(reversal: RevertedEvent) -> dict[str, Any]:
    """The reversed parts of one event."""
    return {
        **_EVENT.dump(reversal.event),
        "ledgerTransactions": [_transaction(transaction) for transaction in reversal.transactions],
        "limitCounters": list(map(limit_counter, reversal.limits)),
        **{kind: [part.record for part in reversal.others if part.kind == kind] for kind in UNDONE_KINDS},
    }


def _transaction(reversal: RevertedTransaction) -> dict[str, Any]:
    """A transaction that a reversal has reverted, as JSON."""
    transaction = reversal.stored
    return {
        "ledgerTransactionId": transaction.ledger_transaction_id,
        "ledgerAccountId": reversal.account.ledger_account_id,
        "ledgerAccountKey": reversal.account.ledger_account_key,
        "transactionType": TRANSACTION_TYPES[transaction.transaction_type],
        "walletId": transaction.from_wallet_id if transaction.to_wallet_id is None else transaction.to_wallet_id,
        "amount": exact_number(transaction.amount),
        "revertedAmount": exact_number(reversal.amount),
        "overdraftAmount": exact_number(reversal.overdraft),
        "outcome": _outcome(reversal),
    }


def _outcome(reversal: RevertedTransaction) -> str:
    """The outcome of a revert on the wire: `clamped` if points were missing, since they were spent."""
    if reversal.is_release:
        return "released"
    if reversal.is_partial:
        return "partial"
    return "clamped" if reversal.missing else "reverted"


_TIER = Shape(TierTracking, only=("member_tier_tracking_id", "loyalty_program_id", "loyalty_tier_id"))
_REFERRAL = Shape(
    ReferralLog,
    only=("referral_log_id", "referral_program_id", "referral_code_id", "referrer_member_id", "referred_member_id"),
)
_BADGE = Shape(BadgeTracking, only=("badge_tracking_id", "badge_tracking_key", "badge_key", "amount_assigned"))
_COUPON = Shape(
    CouponUsage, only=("coupon_usage_id", "coupon_usage_key", "coupon_book_id", "coupon_book_key", "coupon_id", "code")
)


def reversed_tier(tracking: TierTracking, current_tier_id: int | None, is_restored: bool) -> ReversedPart:
    """The reversal of a tier that an event had set; `current_tier_id` is the member's tier now, None for no tier.

    `is_restored` is false if the tier has been changed again meanwhile, so that the member keeps the current one.
    """
    outcome = "reverted" if is_restored else "kept"
    return ReversedPart(TIERS, {**_TIER.dump(tracking), "currentLoyaltyTierId": current_tier_id, "outcome": outcome})


def reversed_referral(log: ReferralLog, code: str) -> ReversedPart:
    """The reversal of a use of a referral code; `log` is the use, which no longer counts."""
    return ReversedPart(REFERRALS, {**_REFERRAL.dump(log), "code": code})


def reversed_badge(tracking: BadgeTracking, reversal: BadgeTracking) -> ReversedPart:
    """The reversal of one badge tracking, in whole, or in part if the balance was too small."""
    record = {
        **_BADGE.dump(tracking),
        "revertedAmount": -reversal.amount_assigned,
        "updatedTotalAssigned": reversal.updated_total_assigned,
        "outcome": "clamped" if reversal.missing else "reverted",
    }
    return ReversedPart(BADGES, record)


def reversed_coupon(usage: CouponUsage, reversal: CouponUsage | None) -> ReversedPart:
    """The reversal of the assignment or use `usage`; `reversal` is None if all of it was used.

    `missing` is the part of an assignment that could not be reversed, because the member has used it. When that use is
    reversed later, this part is reversed, too: the record of the use then has an `amountAssigned`.
    """
    assigned = 0 if reversal is None else -reversal.amount_assigned
    record = {
        **_COUPON.dump(usage),
        # In a dry run, reversals have temporary ids below 0.
        "reversalUsageId": None if reversal is None or reversal.coupon_usage_id < 0 else reversal.coupon_usage_id,
        "amountAssigned": exact_number(assigned),
        "amountUsed": 0 if reversal is None else exact_number(-reversal.amount_used),
        "missing": 0 if usage.is_use else exact_number(usage.amount_assigned - assigned),
    }
    return ReversedPart(COUPONS, record)
