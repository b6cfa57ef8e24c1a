"""Outcomes of referral codes in stored and sent form."""

from collections.abc import Sequence
from typing import Any

from domain.campaigns.outcomes import EVALUATED, EXECUTED
from domain.referrals import ReferralOutcome, RewardOutcome
from handlers.messages.json_text import exact_number


def referral_results(outcomes: Sequence[ReferralOutcome], is_dry_run: bool) -> list[dict[str, Any]]:
    """The outcomes of the referral codes of an event; a dry run has no codes, and `evaluated` instead of `executed`."""
    return [_outcome(outcome, is_dry_run) for outcome in outcomes]


def _outcome(outcome: ReferralOutcome, is_dry_run: bool) -> dict[str, Any]:
    """The outcome of the use of a referral code, as JSON."""
    response: dict[str, Any] = {
        "code": outcome.code,
        "referralProgramId": outcome.referral_program_id,
        "referralCodeId": outcome.referral_code_id,
        "referrerMemberId": outcome.referrer_member_id,
        "status": outcome.status,
        "rewards": [_reward(reward, is_dry_run) for reward in outcome.rewards],
    }
    if outcome.error is not None:
        response["error"] = dict(outcome.error)
    return response


def _reward(outcome: RewardOutcome, is_dry_run: bool) -> dict[str, Any]:
    """A reward with the paid points; if points were refused, also the requested points and the error."""
    reward = outcome.reward
    response: dict[str, Any] = {
        "recipient": reward.recipient,
        "memberId": outcome.member_id,
        "points": None if reward.points is None else exact_number(outcome.points),
        "ledgerAccountId": reward.ledger_account_id,
        "couponBookKey": reward.coupon_book_key,
        "code": None if is_dry_run else outcome.code,
        "status": EVALUATED if is_dry_run and outcome.status == EXECUTED else outcome.status,
    }
    if outcome.error is not None and reward.points is not None:
        response["requestedPoints"] = exact_number(reward.points)
    if outcome.wait is not None:
        response["availableAt"] = outcome.wait.available_at_text
    if outcome.error is not None:
        response["error"] = dict(outcome.error)
    return response
