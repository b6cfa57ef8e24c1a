"""Advancing a member's mission by request (administration, Missions 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.idempotency import refuse_other_request
from domain.members import Member, refuse_inactive
from domain.missions.records import Mission
from domain.missions.state import ProgressCause
from handlers.call import Call
from handlers.messages.missions import progress_answer
from handlers.services.configuration import configuration_of
from handlers.services.idempotency import digest_of
from handlers.services.members.match_audiences import match_audiences
from handlers.services.unit_of_work.unit import unit_of_work
from persistence import missions


@dataclass(frozen=True, slots=True, kw_only=True)
class MissionAdvance:
    """The request to count `amount` for a member's mission."""

    amount: int
    system_unique_key: str | None = None
    external_id: str | None = None
    tags: Sequence[str] = ()
    description: str | None = None
    external_event_date: datetime | None = None


def advance_mission(call: Call, member: Member, mission: Mission, asked: MissionAdvance) -> Mapping[str, Any]:
    """Count `amount` for the mission and pay the rewards that it achieves.

    The same key with the same request returns the same answer. Raises KeyReused, MemberInactive, MissionClosed or
    MissionExhausted.
    """
    organization_id = call.organization.organization_id
    among = configuration_of(call.db, call.organization).audiences
    found = match_audiences(call.db, organization_id, among, [member], call.now)[member.member_id]
    audience_keys = {audience.audience_key for audience in found}
    cause = ProgressCause(
        organization_id=organization_id,
        member_id=member.member_id,
        at=asked.external_event_date or call.now,
        now=call.now,
        system_unique_key=asked.system_unique_key or f"mission-progress-{call.new_key()}",
        request_digest=_digest(member, mission, asked),
        external_id=asked.external_id,
        description=asked.description,
        tags=tuple(asked.tags),
    )
    with unit_of_work(call, [member.member_id], "A mission was advanced by request.", [cause.at]) as unit:
        before = missions.find_tracking(call.db, organization_id, cause.system_unique_key or "")
        if before is not None:
            refuse_other_request(cause.system_unique_key, cause.request_digest, before.request_digest)
            return before.answer or {}
        refuse_inactive(unit.members[member.member_id])
        progress, advance = unit.missions.advance(mission.mission_id, asked.amount, cause, audience_keys)
        answer = progress_answer(progress.balance(member.member_id), advance.achieved)
        unit.missions.answered(answer)
        after = {
            "memberId": member.member_id,
            "amount": asked.amount,
            "externalEventDate": asked.external_event_date,
            "systemUniqueKey": cause.system_unique_key,
            "externalId": cause.external_id,
            "description": cause.description,
            "tags": cause.tags,
            **answer,
        }
        call.audit.add("mission-progress", mission.mission_id, after=after, member_ids=(member.member_id,))
        return answer


def _digest(member: Member, mission: Mission, asked: MissionAdvance) -> bytes:
    content = (
        member.member_id,
        mission.mission_id,
        asked.amount,
        asked.external_id,
        asked.tags,
        asked.description,
        asked.external_event_date,
    )
    return digest_of(content)
