"""Referrals on the wire (administration "Records": Referral program, code, log, leaderboard row)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

from domain.referrals import (
    MOST_REFERRALS,
    LeaderboardRow,
    ProgramTotals,
    ReferralCode,
    ReferralLog,
    ReferralProgram,
)
from handlers.messages.base import Body, LocalMoment, Shape, Update


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferralProgramProperties:
    """The writable fields of a referral program."""

    loyalty_program_id: int | None = None
    name: str
    description: str | None = None
    picture_url: str | None = None
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    active: bool
    valid_from_date: LocalMoment | None = None
    valid_to_date: LocalMoment | None = None
    timezone: str | None = None
    max_per_code: int
    max_referrals_per_member: int = MOST_REFERRALS
    max_redeems_per_referred_member_per_code: int | None = None
    campaign_id: int | None = None
    audience_id: int | None = None
    tags: Sequence[str] = ()
    code: str
    event_type: str
    referrer_points_accrual: Decimal | None = None
    referrer_ledger_id: int | None = None
    referrer_ledger_account_id: int | None = None
    referrer_coupon_book_key: str | None = None
    referred_points_accrual: Decimal | None = None
    referred_ledger_id: int | None = None
    referred_ledger_account_id: int | None = None
    referred_coupon_book_key: str | None = None
    external_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReferralCodes:
    """The codes to create for a member."""

    member_id: int
    codes: Sequence[str]


_NOT_SHOWN = ("organization_id", "loyalty_event_id", "referral_program_id", "referrer_member_id", "referrer_points")
PROGRAM_BODY = Body(ReferralProgramProperties)
PROGRAM_CHANGES = Update(ReferralProgramProperties)
NEW_CODES = Body(NewReferralCodes)
CODE = Shape(ReferralCode, without=("organization_id",))
LOG = Shape(ReferralLog, without=_NOT_SHOWN)
LEADERBOARD_ROW = Shape(LeaderboardRow)
_PROGRAM = Shape(ReferralProgram, ProgramTotals)


def program_record(program_and_totals: tuple[ReferralProgram, ProgramTotals]) -> dict[str, Any]:
    """The record of a program, with its totals."""
    program, totals = program_and_totals
    return _PROGRAM.dump({**asdict(program), **asdict(totals)})
