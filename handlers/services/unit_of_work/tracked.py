"""An event that a unit of work evaluates, its result, and the row that is stored of both."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.campaigns.outcomes import Evaluation
from domain.events import EVALUATED, EVALUATION_FAILED, NOT_EVALUATED, SUCCESS, EventOrigin, IncomingEvent, LoyaltyEvent
from domain.members import Member
from domain.orders import STATUS_OF_EVENT
from domain.problems import Refusal
from domain.reversals import RevertedEvent, negated_counts
from handlers.call import Execution
from handlers.messages.events import limit_counter
from handlers.services.configuration import Configuration
from handlers.services.webhooks.outbox import queue_events
from persistence import events
from persistence.rows import bytea


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one event in the form of the response, and the refusal if the event failed."""

    response: dict[str, Any]
    refusal: Refusal | None = None


@dataclass(slots=True)
class TrackedEvent:
    """An event to be evaluated, or only stored, with its looked-up records.

    `position` is its position in the batch, -1 for derived events. `origin` is the request that tracked it.
    `tracked_at` is set for an event that is already stored, and `evaluated_at` for one that was captured before.
    `order` is the order in its payload, and `order_status` the status that the event gives to the order; None for
    events that are about no order. The events that it causes share its `order_external_id`. `cause_id` is the id of the
    event that caused it. `depth` is 0 for a tracked event, and counts the steps from a tracked event or a request to a
    derived one. `digest` is the digest of its request; derived events have none, so that no request can be the same.
    The keys of the event's ledger transactions begin with `transaction_prefix`.
    """

    position: int
    event: IncomingEvent
    member: Member
    sponsor: Member | None
    at: datetime
    is_evaluated: bool
    origin: EventOrigin
    digest: bytes = b""
    loyalty_event_id: int = 0
    key: str = ""
    cause_id: int | None = None
    depth: int = 0
    tracked_at: datetime | None = None
    evaluated_at: datetime | None = None
    order_external_id: str | None = None
    new_prefix: str | None = None
    happened_at: datetime | None = field(init=False)
    order_status: str | None = field(init=False)
    order: Mapping[str, Any] | None = field(init=False)

    def __post_init__(self) -> None:
        self.happened_at = self.event.happened_at
        self.order_status = STATUS_OF_EVENT.get(self.event.event_type)
        self.order = None if self.order_status is None else (self.event.payload or {}).get("order")
        if self.order is not None:
            self.order_external_id = self.order["externalId"]

    @property
    def transaction_prefix(self) -> str:
        """The beginning of the keys of the event's transactions.

        It is the key of the event, or a new one if clients may know the key of the event.
        """
        return self.new_prefix or self.key

    def stored_date(self, now: datetime) -> datetime | None:
        """The moment of the event as its effects store it: None if it is `now`, at which they are created."""
        if self.happened_at is not None:
            return self.happened_at
        return None if self.at == now else self.at


def incoming_of(event: LoyaltyEvent) -> IncomingEvent:
    """The event as the client sent it."""
    return IncomingEvent(
        system_unique_key=event.system_unique_key,
        event_type=event.event_type,
        member_id=event.member_id,
        external_id=event.external_id,
        description=event.description,
        payload=event.payload,
        external_event_date=event.external_event_date,
        tags=event.tags,
    )


def tracked_event_of(
    position: int, event: LoyaltyEvent, incoming_event: IncomingEvent, members_by_id: Mapping[Any, Member]
) -> TrackedEvent:
    """A stored event with its members, ready for evaluation.

    It is evaluated as of its own date, or if it has none, as of the moment when it was tracked.
    """
    return TrackedEvent(
        position=position,
        event=incoming_event,
        digest=event.request_digest,
        member=members_by_id[event.member_id],
        sponsor=None if event.sponsor_member_id is None else members_by_id[event.sponsor_member_id],
        at=incoming_event.happened_at or event.created_at,
        is_evaluated=True,
        loyalty_event_id=event.loyalty_event_id,
        key=event.loyalty_event_key,
        origin=event.origin,
        tracked_at=event.created_at,
    )


@dataclass(frozen=True, slots=True)
class EventOutcome:
    """The `response` to an event of a member: its result in the returned and stored form."""

    member_id: int
    loyalty_event_id: int
    response: Mapping[str, Any]


def event_row(
    tracked: TrackedEvent,
    status: str,
    result: Mapping[str, Any],
    now: datetime,
    evaluation: Evaluation | None = None,
    location: str | None = None,
    reverted_events: Sequence[RevertedEvent] = (),
) -> dict[str, Any]:
    """The row of an event with its results; it has every field of LoyaltyEvent.

    `evaluation` is None for an event that was not evaluated, `location` for an event without a location.
    `reverted_events` are the events that this event reversed, newest first; the row names the last one as reverted.
    """
    counters = list(evaluation.counts) if evaluation else []
    if reverted_events:
        counters += negated_counts(reverted_events)
    event = tracked.event
    evaluation_status = EVALUATED if status == SUCCESS else EVALUATION_FAILED
    return {
        "organization_id": tracked.member.organization_id,
        "loyalty_event_id": tracked.loyalty_event_id,
        "loyalty_event_key": tracked.key,
        "member_id": tracked.member.member_id,
        "sponsor_member_id": tracked.sponsor.member_id if tracked.sponsor else None,
        "event_type": event.event_type,
        "system_unique_key": event.system_unique_key,
        "request_digest": bytea(tracked.digest),
        "external_id": event.external_id,
        "external_event_date": tracked.happened_at,
        "description": event.description,
        "reason": event.reason,
        "payload": event.payload or {},
        "tags": event.tags,
        "location": location,
        "e2e_tracking_id": tracked.origin.request_id,
        "actor": tracked.origin.actor,
        "user_id": tracked.origin.user_id,
        "reverted_loyalty_event_id": reverted_events[-1].event.loyalty_event_id if reverted_events else None,
        "reversal_loyalty_event_id": None,
        "cause_loyalty_event_id": tracked.cause_id,
        "evaluation_status": evaluation_status if tracked.is_evaluated else NOT_EVALUATED,
        "status": status,
        "last_error": result.get("error"),
        "limit_discarded_total_amount": Decimal(0) if evaluation is None else evaluation.limit_discarded,
        "limit_counters": list(map(limit_counter, counters)),
        "cooldown_campaign_ids": (evaluation.cooldown_campaign_ids or None) if evaluation else None,
        "grants": None if evaluation is None else evaluation.grants,
        "result": result,
        "evaluated_at": tracked.evaluated_at,
        "created_at": tracked.tracked_at or now,
        "updated_at": now,
    }


class EventRows:
    """The rows of a unit's events: `flush` inserts the new ones and adds the results to the stored ones."""

    def __init__(self, execution: Execution, configuration: Configuration) -> None:
        self._execution = execution
        self._configuration = configuration
        self._rows: list[dict[str, Any]] = []
        self._stored_ids: set[int] = set()

    def expect_stored(self, tracked: Iterable[TrackedEvent]) -> None:
        """Note which of the events are already stored."""
        for event in tracked:
            if event.tracked_at is not None:
                self._stored_ids.add(event.loyalty_event_id)

    def add(
        self,
        tracked: TrackedEvent,
        status: str,
        result: Mapping[str, Any],
        evaluation: Evaluation | None = None,
        location: str | None = None,
        reverted_events: Sequence[RevertedEvent] = (),
    ) -> None:
        """Add an event that `flush` stores; the arguments are those of `event_row`."""
        self._rows.append(
            event_row(tracked, status, result, self._execution.now, evaluation, location, reverted_events)
        )

    def flush(self, members: Mapping[int, Member]) -> None:
        """Store the events, and queue messages for the triggers that listen; `members` are those of the unit."""
        if not self._rows:
            return
        db, organization_id = self._execution.db, self._execution.organization.organization_id
        rows, self._rows = self._rows, []
        new_rows = rows
        if self._stored_ids:
            stored_rows = [row for row in rows if row["loyalty_event_id"] in self._stored_ids]
            events.finish_events(db, organization_id, stored_rows)
            new_rows = [row for row in rows if row["loyalty_event_id"] not in self._stored_ids]
        events.add_events(db, new_rows)
        if self._configuration.subscriptions and not self._execution.is_quiet:
            queue_events(self._execution, self._configuration, rows, members)
