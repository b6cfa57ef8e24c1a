"""Referrals on the wire (administration "Records": Referral program, code, log, leaderboard row)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from domain.referrals import (
    MOST_REFERRALS,
    ProgramTotals,
    ReferralProgram,
)
from handlers.messages.base import Exact, Instant, LocalInstant, Plain, Shape, WireSchema


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
    """The record of a program, with its totals."""
    program, totals = found
    return _PROGRAM.dump({**asdict(program), **asdict(totals)})
