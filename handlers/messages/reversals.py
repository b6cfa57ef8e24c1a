"""Reversed parts of events, on the wire (integration 4.6, item 3)."""

from typing import Any

from domain.badges import BadgeTracking
from domain.coupons.books import CouponBook
from domain.coupons.usages import CouponUsage
from domain.ledger.records import TRANSACTION_TYPES
from domain.referrals import ReferralLog
from domain.reversals import ReversedPart, RevertedEvent, RevertedTransaction
from domain.tier_log import TierTracking
from handlers.messages.events import limit_counter
from handlers.messages.json_text import exact_number

# The effects of events besides points and limits, by their names in the response.
TIERS, BADGES, COUPONS, MISSIONS, REFERRALS = UNDONE_KINDS = "tiers", "badges", "coupons", "missions", "referrals"


def reverted_event(reversal: RevertedEvent) -> dict[str, Any]:
    """The reversed parts of one event."""
    return {
        "loyaltyEventId": reversal.event.loyalty_event_id,
        "loyaltyEventKey": reversal.event.loyalty_event_key,
        "systemUniqueKey": reversal.event.system_unique_key,
        "eventType": reversal.event.event_type,
        "memberId": reversal.event.member_id,
        "ledgerTransactions": [_transaction(transaction) for transaction in reversal.transactions],
        "limitCounters": list(map(limit_counter, reversal.limits)),
        **{kind: [other.record for other in reversal.others if other.kind == kind] for kind in UNDONE_KINDS},
    }


def _transaction(reversal: RevertedTransaction) -> dict[str, Any]:
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
    if reversal.is_release:
        return "released"
    if reversal.is_partial:
        return "partial"
    return "clamped" if reversal.missing else "reverted"


def reversed_tier(tracking: TierTracking, current_tier_id: int | None, is_restored: bool) -> ReversedPart:
    """The reversal of a tier that an event had set; `current_tier_id` is the member's tier now."""
    record = {
        "memberTierTrackingId": tracking.member_tier_tracking_id,
        "loyaltyProgramId": tracking.loyalty_program_id,
        "loyaltyTierId": tracking.loyalty_tier_id,
        "currentLoyaltyTierId": current_tier_id,
        "outcome": "reverted" if is_restored else "kept",
    }
    return ReversedPart(TIERS, record)


def reversed_referral(log: ReferralLog, code: str) -> ReversedPart:
    """The reversal of a use of a referral code, which no longer counts."""
    record = {
        "referralLogId": log.referral_log_id,
        "referralProgramId": log.referral_program_id,
        "referralCodeId": log.referral_code_id,
        "code": code,
        "referrerMemberId": log.referrer_member_id,
        "referredMemberId": log.referred_member_id,
    }
    return ReversedPart(REFERRALS, record)


def reversed_badge(tracking: BadgeTracking, reversal: BadgeTracking) -> ReversedPart:
    """The reversal of one badge tracking, in whole or as far as the balance allowed."""
    record = {
        "badgeTrackingId": tracking.badge_tracking_id,
        "badgeTrackingKey": tracking.badge_tracking_key,
        "badgeKey": tracking.badge_key,
        "amountAssigned": tracking.amount_assigned,
        "revertedAmount": -reversal.amount_assigned,
        "updatedTotalAssigned": reversal.updated_total_assigned,
        "outcome": "clamped" if reversal.missing else "reverted",
    }
    return ReversedPart(BADGES, record)


def reversed_coupon(usage: CouponUsage, reversal: CouponUsage | None, book: CouponBook) -> ReversedPart:
    """The reversal of an assignment or a use; `missing` is the part that stays, because it was used meanwhile.

    The reversal of a use includes the part that an earlier reversal of its assignment could not take.
    """
    assigned = 0 if reversal is None else -reversal.amount_assigned
    record = {
        "couponUsageId": usage.coupon_usage_id,
        "couponUsageKey": usage.coupon_usage_key,
        "reversalUsageId": None if reversal is None else reversal.coupon_usage_id,
        "couponBookId": book.coupon_book_id,
        "couponBookKey": book.coupon_book_key,
        "couponId": usage.coupon_id,
        "code": usage.code,
        "amountAssigned": exact_number(assigned),
        "amountUsed": 0 if reversal is None else exact_number(-reversal.amount_used),
        "missing": 0 if usage.is_use else exact_number(usage.amount_assigned - assigned),
    }
    return ReversedPart(COUPONS, record)
