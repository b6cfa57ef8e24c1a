"""Missions on the wire (administration "Records": Mission; integration 2.9: missionsStatus)."""

from typing import Any

from domain.campaigns.warnings import warnings_of_mission
from domain.missions.records import MemberMission, Mission
from handlers.messages.base import Shape
from handlers.messages.missions import BALANCE
from handlers.schemas.expressions import WARNING
from handlers.services.missions.validate import MissionProperties

MISSION = Shape(MissionProperties, Mission)


def saved_mission(mission: Mission) -> dict[str, Any]:
    """The response to a request that saved a mission: its record, and the warnings about its count expression."""
    return {"mission": MISSION.dump(mission), "warnings": list(map(WARNING, warnings_of_mission(mission)))}


def member_mission(mission: MemberMission) -> dict[str, Any]:
    """A mission with the member's progress."""
    return {**MISSION.dump(mission.mission), "balance": BALANCE.dump(mission.balance)}
