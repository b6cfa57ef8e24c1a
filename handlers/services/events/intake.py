"""Events on their way in: what a request says, whether it can be tracked, and whether it was said before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.event_types import BUILT_IN_EVENT_TYPES, NOT_TRACKABLE, refuse_other_payload
from domain.events import IncomingEvent, NotTrackable, PayloadMissing, UnknownEventType
from domain.members import Member, MemberInactive, refuse_erased
from domain.problems import Refusal
from handlers.services.configuration import Configuration
from handlers.services.digests import digest_of
from handlers.services.unit_of_work.orders import order_payload

_BUILT_IN = frozenset(BUILT_IN_EVENT_TYPES)
# What takes an order back is tracked whatever has become of the member.
_OF_INACTIVE_MEMBERS = frozenset(
    {
        "member-profile-deactivated",
        "member-purchase-order-cancelled",
        "member-purchase-order-rejected",
        "member-purchase-order-returned",
        "member-purchase-order-partially-returned",
    }
)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one event: the answer on the wire, and the refusal behind a failure."""

    answer: dict[str, Any]
    refusal: Refusal | None = None


class RefusedBefore(Refusal):
    """An event that failed under this key before: refused again in the same words."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(problem["detail"])
        self._problem = dict(problem)

    def as_problem(self) -> dict[str, Any]:
        """The problem object of the first time."""
        return dict(self._problem)


@dataclass(slots=True)
class Accepted:
    """An event that will be evaluated, with what was looked up for it."""

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
    # The request that tracked it, where that is not the one at work.
    request_id: str | None = None
    # When it was stored, where that was before.
    tracked_at: datetime | None = None


def refuse_untrackable(event: IncomingEvent, member: Member, configuration: Configuration, own_events: bool) -> None:
    """Refuse what cannot be tracked as things stand now, which says nothing of what was tracked before.

    Raises UnknownEventType, NotTrackable, MemberErased, MemberInactive, PayloadMissing or PayloadInvalid.
    """
    if event.event_type not in _BUILT_IN and event.event_type not in configuration.custom_event_types:
        raise UnknownEventType(f"There is no active event type {event.event_type}.")
    if event.event_type in NOT_TRACKABLE and not own_events:
        raise NotTrackable(f"Events of type {event.event_type} are emitted by the server alone.")
    if not own_events:
        refuse_erased(member)
    if not member.active and event.event_type not in _OF_INACTIVE_MEMBERS and not own_events:
        raise MemberInactive("Events of an inactive member are not tracked.")
    schema_type = configuration.custom_event_types.get(event.event_type)
    if schema_type is not None:
        refuse_other_payload(event.event_type, schema_type, event.payload)
    order_payload(event)
    if event.event_type == "member-payment-confirmed" and not (event.payload or {}).get("payment"):
        raise PayloadMissing(f"An event of type {event.event_type} needs payload.payment.")


def event_digest(
    event: IncomingEvent, member: Member, sponsor: Member | None, mode: str, campaign_keys: Sequence[str] | None
) -> bytes:
    """What makes two requests the same: all that was said, on whichever surface it was said."""
    said = (
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
    return digest_of(said)


def without_repeats(accepted: Sequence[Accepted]) -> tuple[list[Accepted], list[tuple[Accepted, Accepted]]]:
    """Those whose key comes for the first time in the batch, and the others beside the first of their key."""
    first: dict[str, Accepted] = {}
    repeats = []
    for each in accepted:
        original = first.setdefault(each.event.system_unique_key, each)
        if original is not each:
            repeats.append((each, original))
    return list(first.values()), repeats
