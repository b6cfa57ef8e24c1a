"""Missions on the wire (administration "Records": Mission; integration 2.9: missionsStatus)."""

from typing import Any

from domain.missions.records import MemberMission, Mission
from handlers.messages.base import Body, Shape, Update
from handlers.messages.missions import BALANCE
from handlers.services.missions.advance import MissionAdvance
from handlers.services.missions.validate import MissionProperties

MISSION_BODY = Body(MissionProperties)
MISSION_CHANGES = Update(MissionProperties)
MISSION = Shape(MissionProperties, Mission)
PROGRESS_BODY = Body(MissionAdvance)


def member_mission(mission: MemberMission) -> dict[str, Any]:
    """A mission with the member's progress."""
    return {**MISSION.dump(mission.mission), "balance": BALANCE.dump(mission.balance)}
