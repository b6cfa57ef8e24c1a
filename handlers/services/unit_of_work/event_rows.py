"""Events as they are kept, in rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from domain.campaigns.outcomes import Evaluation
from domain.events import EVALUATED, EVALUATION_FAILED, NOT_EVALUATED, SUCCESS, IncomingEvent
from domain.members import Member
from domain.reversals import RevertedEvent, counted_back
from handlers.messages.events import limit_counter


class Tracked(Protocol):
    """What tracking knows of an event; `is_evaluated` is False where it was only to be kept."""

    event: IncomingEvent
    digest: bytes
    member: Member
    sponsor: Member | None
    loyalty_event_id: int
    key: str
    cause_id: int | None
    is_evaluated: bool
    tracked_at: datetime | None


def event_row(
    each: Tracked,
    found: Evaluation | None,
    status: str,
    answer: Mapping[str, Any],
    location: str | None,
    request_id: str,
    now: datetime,
    reverted: Sequence[RevertedEvent] = (),
) -> dict[str, Any]:
    """The row of an event with what came of it; it has every field of LoyaltyEvent.

    The last of the `reverted` is what the event itself undid, those before it are what that had caused.
    """
    counted = [*(found.counted if found else ()), *counted_back(reverted)]
    event = each.event
    evaluation = EVALUATED if status == SUCCESS else EVALUATION_FAILED
    return {
        "organization_id": each.member.organization_id,
        "loyalty_event_id": each.loyalty_event_id,
        "loyalty_event_key": each.key,
        "member_id": each.member.member_id,
        "sponsor_member_id": each.sponsor.member_id if each.sponsor else None,
        "event_type": event.event_type,
        "system_unique_key": event.system_unique_key,
        "request_digest": "\\x" + each.digest.hex(),
        "external_id": event.external_id,
        "external_event_date": event.external_event_date,
        "description": event.description,
        "reason": event.reason,
        "payload": event.payload or {},
        "tags": event.tags,
        "location": location,
        "e2e_tracking_id": request_id,
        "reverted_loyalty_event_id": reverted[-1].event.loyalty_event_id if reverted else None,
        "reversal_loyalty_event_id": None,
        "cause_loyalty_event_id": each.cause_id,
        "evaluation_status": evaluation if each.is_evaluated else NOT_EVALUATED,
        "status": status,
        "last_error": answer.get("error"),
        "limit_discarded_total_amount": Decimal(0) if found is None else found.limit_discarded,
        "limit_counters": [limit_counter(*each_counted) for each_counted in counted],
        "result": answer,
        "evaluated_at": None,
        "created_at": each.tracked_at or now,
        "updated_at": now,
    }
