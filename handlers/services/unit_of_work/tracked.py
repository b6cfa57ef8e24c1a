"""An event that a unit of work evaluates, and its result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.events import EventOrigin, IncomingEvent
from domain.members import Member
from domain.problems import Refusal
from handlers.services.idempotency import digest_of


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one event in the form of the answer, and the refusal of a failed one."""

    answer: dict[str, Any]
    refusal: Refusal | None = None


@dataclass(slots=True)
class TrackedEvent:
    """An event to be evaluated, or only stored, with its looked-up records.

    `position` is its place in the batch, -1 for derived events. `origin` is the request that tracked it, if that is
    another one than the present. `tracked_at` is set for an event that is stored already, and `evaluated_at`
    for one that was captured before.
    """

    position: int
    event: IncomingEvent
    digest: bytes
    member: Member
    sponsor: Member | None
    at: datetime
    is_evaluated: bool
    loyalty_event_id: int = 0
    key: str = ""
    cause_id: int | None = None
    depth: int = 0
    origin: EventOrigin | None = None
    tracked_at: datetime | None = None
    evaluated_at: datetime | None = None

    def stored_date(self, now: datetime) -> datetime | None:
        """The event's moment as it is stored with its effects; None if that is `now`, when they are created."""
        return self.event.happened_at or (None if self.at == now else self.at)


@dataclass(frozen=True, slots=True)
class EventOutcome:
    """The outcome of an event of a member; `answer` is as it is returned and stored."""

    member_id: int
    loyalty_event_id: int
    answer: Mapping[str, Any]


def event_digest(
    event: IncomingEvent, member: Member, sponsor: Member | None, mode: str, campaign_keys: Sequence[str] | None
) -> bytes:
    """The digest of an event in a request: two requests with the same digest are the same request."""
    return digest_of(
        (
            member.member_id,
            sponsor.member_id if sponsor else None,
            event.event_type,
            event.external_id,
            event.description,
            event.payload,
            event.external_event_date,
            event.tags,
            mode,
            campaign_keys,
        )
    )
