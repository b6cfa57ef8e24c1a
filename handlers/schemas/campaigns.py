"""Campaigns, actions and the catalogue of effects on the wire (administration "Campaigns and actions")."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from domain.campaigns.effects import Effect
from domain.campaigns.records import Action, Campaign
from domain.matchers import Matcher
from domain.missions.records import MemberMission, Mission
from domain.referrals import LeaderboardRow, ProgramTotals, ReferralCode, ReferralLog, ReferralProgram
from handlers.messages.base import OF_REQUEST, Body, Shape, Update
from handlers.messages.missions import BALANCE
from handlers.services.campaigns import ActionProperties, CampaignProperties
from handlers.services.missions.advance import MissionAdvance
from handlers.services.missions.validate import MissionProperties
from handlers.services.referrals import ReferralProgramProperties

CAMPAIGN_BODY = Body(CampaignProperties)
CAMPAIGN_CHANGES = Update(CampaignProperties)
ACTION_BODY = Body(ActionProperties)
ACTION_CHANGES = Update(ActionProperties)
ACTION = Shape(Action)
_CAMPAIGN = Shape(Campaign)


def campaign_record(campaign: Any) -> dict[str, Any]:
    """The record of a campaign; every limit rule has `ledgerAccountKey`, null if it names no account."""
    answer = _CAMPAIGN.dump(campaign)
    answer["limitRules"] = [{"ledgerAccountKey": None, **rule} for rule in campaign.limit_rules]
    return answer


def effect_record(effect: Effect, organization_id: int) -> dict[str, Any]:
    """An effect of the catalogue."""
    return {
        "organizationId": organization_id,
        "effectId": effect.effect_id,
        "name": effect.name,
        "supportedEventTypes": dict(effect.supported_event_types),
        "params": [
            {
                "id": param.id,
                "label": param.label,
                "type": str(param.type),
                "defaultValue": param.default_value,
                "isOptional": param.is_optional,
            }
            for param in effect.params
        ],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class MatcherProperties:
    """The writable fields of a matcher."""

    organization_id: int | None = field(default=None, metadata=OF_REQUEST)
    name: str
    type: str
    matcher: Mapping[str, Any]
    external_key: str | None = None


MATCHER_BODY = Body(MatcherProperties)
MATCHER_CHANGES = Update(MatcherProperties)
MATCHER = Shape(Matcher)

MISSION_BODY = Body(MissionProperties)
MISSION_CHANGES = Update(MissionProperties)
MISSION = Shape(MissionProperties, Mission)
PROGRESS_BODY = Body(MissionAdvance)


def member_mission(mission: MemberMission) -> dict[str, Any]:
    """A mission with the member's progress."""
    return {**MISSION.dump(mission.mission), "balance": BALANCE.dump(mission.balance)}


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
