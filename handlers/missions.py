"""Missions and the progress of members (administration "Missions")."""

from collections.abc import Mapping
from typing import Any

from domain.members import Member
from domain.missions.records import MemberMission, Mission
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import Merged, values_of, wrapped
from handlers.messages.lists import listed
from handlers.operation import BatchHandler, declare_get, declare_list, operation
from handlers.schemas.missions import MISSION, member_mission, saved_mission
from handlers.services.configuration import configuration_of
from handlers.services.members.match_audiences import match_audiences
from handlers.services.missions.advance import AdvanceRequest, MissionAdvance, advance_missions
from handlers.services.missions.validate import MissionProperties, validated_mission
from persistence import member_missions
from persistence.missions import MISSIONS
from persistence.paging import Paged

_AUDITED = Audited("mission", "mission_id", MISSION)


declare_list("listMissions", MISSIONS.find_page, listed(MISSION))


@operation("createMission", response=saved_mission, audit=_AUDITED, changes_configuration=True)
def create_mission(call: Call, body: MissionProperties) -> Mission:
    """Create a mission, which counts events from the next one on."""
    values = {"mission_key": call.new_key(), **values_of(validated_mission(call, body, before=None))}
    return MISSIONS.add(call.db, call.organization.organization_id, values, call.now)


declare_get("getMission", "mission", wrapped("mission", MISSION))


@operation("updateMission", response=saved_mission, audit=_AUDITED.changing("mission"), changes_configuration=True)
def update_mission(call: Call, mission: Mission, body: Merged[MissionProperties]) -> Mission:
    """Change a mission.

    Members keep their progress, and all processes use the change from their next event on.
    """
    properties = validated_mission(call, body, mission)
    return MISSIONS.store(call.db, mission, values_of(properties), call.now)


@operation("listMemberMissions", response=listed(member_mission))
def list_member_missions(call: Call, member: Member, query: Mapping[str, Any]) -> Paged[MemberMission]:
    """A page of missions with the member's progress in each."""
    configuration = configuration_of(call.db, call.organization)
    audiences_by_member = match_audiences(call.db, member.organization_id, configuration.audiences, [member], call.now)
    audience_ids = [audience.audience_id for audience in audiences_by_member[member.member_id]]
    # A mission without a zone uses the organization's.
    mission_zones = {
        mission.mission.timezone for mission in configuration.missions.values() if mission.mission.timezone is not None
    }
    zones = [call.organization.timezone, *sorted(mission_zones - {call.organization.timezone})]
    return member_missions.find_page(call.db, member, query, audience_ids, zones, call.now)


@operation("updateMissionProgress", audit="mission-progress", batch=BatchHandler(advance_missions))
def update_mission_progress(call: Call, member: Member, mission: Mission, body: MissionAdvance) -> AdvanceRequest:
    """Advance the member's progress in a mission by request."""
    return AdvanceRequest(member, mission, body)
