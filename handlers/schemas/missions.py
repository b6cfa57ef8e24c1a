"""Missions on the wire (administration "Records": Mission; integration 2.9: missionsStatus)."""

from typing import Any

from domain.missions.records import MemberMission
from handlers.messages.base import Body, Instant, Plain, Shape, Update, WireSchema
from handlers.messages.missions import BALANCE
from handlers.services.missions.advance import MissionAdvance
from handlers.services.missions.validate import MissionProperties


class _Record(WireSchema):
    organization_id = Plain()
    mission_id = Plain()
    mission_key = Plain()
    created_at = Instant()
    updated_at = Instant()


MISSION_BODY = Body(MissionProperties)
MISSION_CHANGES = Update(MissionProperties)
MISSION = Shape(MissionProperties, _Record)
PROGRESS_BODY = Body(MissionAdvance)


def member_mission(mission: MemberMission) -> dict[str, Any]:
    """A mission with the member's progress."""
    return {**MISSION.dump(mission.mission), "balance": BALANCE.dump(mission.balance)}
