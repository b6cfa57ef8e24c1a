"""Advances missions of members by request (administration, Missions 3)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from domain.idempotency import ResultsByKey
from domain.members import Member, refuse_inactive
from domain.missions.records import Mission
from domain.missions.state import ProgressCause
from domain.problems import Refusal
from handlers.call import Call
from handlers.messages.json_text import digest_of
from handlers.messages.missions import progress_response
from handlers.services.configuration import configuration_of
from handlers.services.members.match_audiences import match_audiences
from handlers.services.unit_of_work.requests import RequestedChange, apply_batch
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence.missions import TRACKINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class MissionAdvance:
    """The request to count `amount` for a member's mission."""

    amount: int
    system_unique_key: str | None = None
    external_id: str | None = None
    tags: Sequence[str] = ()
    description: str | None = None
    external_event_date: datetime | None = None


@dataclass(frozen=True, slots=True)
class AdvanceRequest:
    """The request to advance a mission of a member."""

    member: Member
    mission: Mission
    advance: MissionAdvance

    def cause(self, call: Call) -> ProgressCause:
        """The cause of the progress by a call; a request without a key gets one."""
        advance = self.advance
        return ProgressCause(
            organization_id=call.organization.organization_id,
            member_id=self.member.member_id,
            at=advance.external_event_date or call.now,
            now=call.now,
            system_unique_key=advance.system_unique_key or f"mission-progress-{call.new_key()}",
            request_digest=_digest(self.member, self.mission, advance),
            external_id=advance.external_id,
            description=advance.description,
            tags=tuple(advance.tags),
            actor=call.origin.actor,
            user_id=call.origin.user_id,
        )


def advance_missions(calls: Sequence[Call], requests: Sequence[AdvanceRequest]) -> list[Mapping[str, Any] | Refusal]:
    """Count the amount of each request for its mission, one request after the other, and pay the achieved rewards.

    The same key with the same request returns the same response. The refusal of a request is KeyReused, MemberInactive,
    MissionClosed or MissionExhausted.
    """
    first_call = calls[0]
    db, organization_id = first_call.db, first_call.organization.organization_id
    audiences = configuration_of(db, first_call.organization).audiences
    members = {request.member.member_id: request.member for request in requests}
    audiences_by_member = match_audiences(db, organization_id, audiences, [*members.values()], first_call.now)
    results: ResultsByKey[Mapping[str, Any]] = ResultsByKey()
    causes = [request.cause(call) for call, request in zip(calls, requests, strict=True)]

    def prepare(unit: UnitOfWork) -> None:
        keys = [cause.system_unique_key or "" for cause in causes]
        trackings = TRACKINGS.find_all(db, organization_id, system_unique_key=keys)
        for tracking in trackings:
            results.add(tracking.system_unique_key or "", tracking.request_digest, tracking.answer or {})

    def advance(call: Call, request: AdvanceRequest, cause: ProgressCause, unit: UnitOfWork) -> Mapping[str, Any]:
        """Advance the mission, or return the stored result of a request with the same key."""
        key = cause.system_unique_key or ""
        stored_result = results.find(key, cause.request_digest)
        if stored_result is not None:
            return stored_result
        refuse_inactive(unit.members[cause.member_id])
        audience_keys = {audience.audience_key for audience in audiences_by_member[cause.member_id]}
        response = _advance(call, request, cause, unit, audience_keys)
        # An amount of 0 only reads the progress, and its key can be used by another request.
        if request.advance.amount:
            results.add(key, cause.request_digest, response)
        return response

    reason = "A mission was advanced by request."
    changes = [
        RequestedChange(call, cause.member_id, reason, partial(advance, call, request, cause))
        for call, request, cause in zip(calls, requests, causes, strict=True)
    ]
    return apply_batch(changes, prepare, [cause.at for cause in causes])


def _advance(
    call: Call, request: AdvanceRequest, cause: ProgressCause, unit: UnitOfWork, audience_keys: Collection[str]
) -> Mapping[str, Any]:
    """Advance the mission, store the response, and add an entry to the audit log; return the response.

    An amount of 0 stores nothing.
    """
    mission_advance = request.advance
    mission_id = request.mission.mission_id
    progress, advance = unit.missions.advance(mission_id, mission_advance.amount, cause, audience_keys)
    response = progress_response(progress.balance(cause.member_id), advance.achieved)
    if not mission_advance.amount:
        return response
    unit.missions.store_response(response)
    after = {
        "memberId": cause.member_id,
        "amount": mission_advance.amount,
        "externalEventDate": mission_advance.external_event_date,
        "systemUniqueKey": cause.system_unique_key,
        "externalId": cause.external_id,
        "description": cause.description,
        "tags": cause.tags,
        **response,
    }
    call.audit.add("mission-progress", mission_id, after=after, member_ids=(cause.member_id,))
    return response


def _digest(member: Member, mission: Mission, advance: MissionAdvance) -> bytes:
    """The digest of a request, by which its repetition is recognized."""
    content = (
        member.member_id,
        mission.mission_id,
        advance.amount,
        advance.external_id,
        advance.tags,
        advance.description,
        advance.external_event_date,
    )
    return digest_of(content)
