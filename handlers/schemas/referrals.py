"""Referrals on the wire (administration "Records": Referral program, code, log, leaderboard row)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from domain.referrals import LeaderboardRow, ProgramTotals, ReferralCode, ReferralLog, ReferralProgram
from handlers.messages.base import Body, Shape
from handlers.services.referrals import ReferralProgramProperties


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReferralCodes:
    """The codes to create for a member."""

    member_id: int
    codes: Sequence[str]


_NOT_SHOWN = ("organization_id", "loyalty_event_id", "referral_program_id", "referrer_member_id", "referrer_points")
PROGRAM_BODY = Body(ReferralProgramProperties)
CODE = Shape(ReferralCode, without=("organization_id",))
LOG = Shape(ReferralLog, without=_NOT_SHOWN)
LEADERBOARD_ROW = Shape(LeaderboardRow)
_PROGRAM = Shape(ReferralProgram, ProgramTotals, optional=("available_on",))


def program_record(program_and_totals: tuple[ReferralProgram, ProgramTotals]) -> dict[str, Any]:
    """The record of a program, with its totals."""
    program, totals = program_and_totals
    return _PROGRAM.dump({**asdict(program), **asdict(totals)})
