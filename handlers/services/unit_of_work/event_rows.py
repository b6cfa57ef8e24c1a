"""The rows of stored events."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.campaigns.outcomes import Evaluation
from domain.events import EVALUATED, EVALUATION_FAILED, NOT_EVALUATED, SUCCESS, EventOrigin
from domain.reversals import RevertedEvent, counted_back
from handlers.messages.events import limit_counter
from handlers.services.unit_of_work.tracked import TrackedEvent


def event_row(
    tracked: TrackedEvent,
    status: str,
    answer: Mapping[str, Any],
    origin: EventOrigin,
    now: datetime,
    *,
    evaluation: Evaluation | None = None,
    location: str | None = None,
    reverted: Sequence[RevertedEvent] = (),
) -> dict[str, Any]:
    """The row of an event with its results; it has every field of LoyaltyEvent.

    The last of the `reverted` is the part that the event itself reversed; those before it are the parts of events that
    it had caused.
    """
    counted = [*(evaluation.counted if evaluation else ()), *counted_back(reverted)]
    event = tracked.event
    evaluated = EVALUATED if status == SUCCESS else EVALUATION_FAILED
    return {
        "organization_id": tracked.member.organization_id,
        "loyalty_event_id": tracked.loyalty_event_id,
        "loyalty_event_key": tracked.key,
        "member_id": tracked.member.member_id,
        "sponsor_member_id": tracked.sponsor.member_id if tracked.sponsor else None,
        "event_type": event.event_type,
        "system_unique_key": event.system_unique_key,
        "request_digest": "\\x" + tracked.digest.hex(),
        "external_id": event.external_id,
        "external_event_date": event.happened_at,
        "description": event.description,
        "reason": event.reason,
        "payload": event.payload or {},
        "tags": event.tags,
        "location": location,
        "e2e_tracking_id": origin.request_id,
        "actor": origin.actor,
        "user_id": origin.user_id,
        "reverted_loyalty_event_id": reverted[-1].event.loyalty_event_id if reverted else None,
        "reversal_loyalty_event_id": None,
        "cause_loyalty_event_id": tracked.cause_id,
        "evaluation_status": evaluated if tracked.is_evaluated else NOT_EVALUATED,
        "status": status,
        "last_error": answer.get("error"),
        "limit_discarded_total_amount": Decimal(0) if evaluation is None else evaluation.limit_discarded,
        "limit_counters": [limit_counter(*counter) for counter in counted],
        "result": answer,
        "evaluated_at": tracked.evaluated_at,
        "created_at": tracked.tracked_at or now,
        "updated_at": now,
    }
