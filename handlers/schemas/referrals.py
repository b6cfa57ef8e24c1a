"""Referrals on the wire (administration "Records": Referral program, code, log, leaderboard row)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from domain.campaigns.outcomes import EVALUATED, EXECUTED
from domain.referrals import (
    MOST_REFERRALS,
    ProgramTotals,
    ReferralOutcome,
    ReferralProgram,
    RewardOutcome,
)
from handlers.schemas.base import Exact, Instant, LocalInstant, Plain, Shape, WireSchema, exact_number


class _Program(WireSchema):
    loyalty_program_id = Plain()
    name = Plain()
    description = Plain()
    picture_url = Plain()
    custom_attributes = Plain(load_default=dict)
    active = Plain()
    valid_from_date = LocalInstant()
    valid_to_date = LocalInstant()
    timezone = Plain()
    max_per_code = Plain()
    max_referrals_per_member = Plain(load_default=MOST_REFERRALS)
    max_redeems_per_referred_member_per_code = Plain()
    campaign_id = Plain()
    audience_id = Plain()
    tags = Plain(load_default=list)
    code = Plain()
    event_type = Plain()
    referrer_points_accrual = Exact()
    referrer_ledger_id = Plain()
    referrer_ledger_account_id = Plain()
    referrer_coupon_book_key = Plain()
    referred_points_accrual = Exact()
    referred_ledger_id = Plain()
    referred_ledger_account_id = Plain()
    referred_coupon_book_key = Plain()


class _ProgramRecord(_Program):
    organization_id = Plain()
    referral_program_id = Plain()
    referral_program_key = Plain()
    referred_count = Plain()
    total_codes = Plain()
    total_logs = Plain()
    created_at = Instant()
    updated_at = Instant()


class _NewCodes(WireSchema):
    member_id = Plain()
    codes = Plain()


class _Code(WireSchema):
    referral_code_id = Plain()
    member_id = Plain()
    referral_program_id = Plain()
    code = Plain()
    total_usages = Plain()
    created_at = Instant()
    updated_at = Instant()


class _Log(WireSchema):
    referral_log_id = Plain()
    referral_code_id = Plain()
    referred_member_id = Plain()
    system_unique_key = Plain()
    custom_attributes = Plain()
    created_at = Instant()
    updated_at = Instant()


class _LeaderboardRow(WireSchema):
    member_id = Plain()
    name = Plain()
    email = Plain()
    invites = Plain()
    accepted_invites = Plain()
    points_accumulated = Exact()


PROGRAM_BODY = Shape(_Program, complete=True)
PROGRAM_CHANGES = Shape(_Program)
NEW_CODES = Shape(_NewCodes, complete=True)
CODE = Shape(_Code)
LOG = Shape(_Log)
LEADERBOARD_ROW = Shape(_LeaderboardRow)
_PROGRAM = Shape(_ProgramRecord)


def program_record(found: tuple[ReferralProgram, ProgramTotals]) -> dict[str, Any]:
    """The record of a program, with what has come of it."""
    program, totals = found
    return _PROGRAM.dump({**asdict(program), **asdict(totals)})


def referral_results(outcomes: Sequence[ReferralOutcome], is_dry_run: bool) -> list[dict[str, Any]]:
    """What became of the referral codes that an event came with; in a rehearsal, nothing was executed."""
    return [_outcome(each, is_dry_run) for each in outcomes]


def _outcome(outcome: ReferralOutcome, is_dry_run: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "code": outcome.code,
        "referralProgramId": outcome.referral_program_id,
        "referralCodeId": outcome.referral_code_id,
        "referrerMemberId": outcome.referrer_member_id,
        "status": outcome.status,
        "rewards": [_reward(each, is_dry_run) for each in outcome.rewards],
    }
    if outcome.error is not None:
        answer["error"] = dict(outcome.error)
    return answer


def _reward(outcome: RewardOutcome, is_dry_run: bool) -> dict[str, Any]:
    reward = outcome.reward
    answer: dict[str, Any] = {
        "recipient": reward.recipient,
        "memberId": outcome.member_id,
        "points": None if reward.points is None else exact_number(reward.points),
        "ledgerAccountId": reward.ledger_account_id,
        "couponBookKey": reward.coupon_book_key,
        "code": None if is_dry_run else outcome.code,
        "status": EVALUATED if is_dry_run and outcome.status == EXECUTED else outcome.status,
    }
    if outcome.error is not None:
        answer["error"] = dict(outcome.error)
    return answer
