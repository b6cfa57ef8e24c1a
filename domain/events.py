"""Loyalty events, in the form that clients send and in the stored form (integration 2.7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.calendar import instant_of
from domain.fields import Internal, Key, Personal
from domain.problems import Conflict, NotFound

# The statuses of events; the last two are of queued events: not attempted yet, and after a failed attempt.
SUCCESS, FAILURE = "success", "failed"
PENDING, RUNNING = "pending", "running"
WAITING = frozenset({PENDING, RUNNING})

# The values of `evaluation_status`.
NOT_EVALUATED, EVALUATED, EVALUATION_FAILED = 0, 1, 2

# Derived events may cause further ones: at most MAX_DEPTH after each other, and MAX_CAUSED in total for one event.
MAX_DEPTH, MAX_CAUSED = 5, 100

# The execution modes of tracking.
FULL, DRY_RUN, CAPTURE_ONLY, AUTHORIZE = "full", "dryRun", "captureOnly", "authorize"


@dataclass(frozen=True, slots=True)
class EventOrigin:
    """The request, or the job, that an event belongs to; `actor` is the subject of the caller's token."""

    request_id: str | None
    actor: str | None = None
    user_id: int | None = None


@dataclass(frozen=True, slots=True)
class IncomingEvent:
    """An event as tracked by a client or emitted by the server; `loyalty_member_id` or `member_id` names the member."""

    system_unique_key: str
    event_type: str
    loyalty_member_id: str | None = None
    member_id: int | None = None
    sponsor_loyalty_member_id: str | None = None
    external_id: str | None = None
    description: str | None = None
    reason: str | None = None
    payload: Mapping[str, Any] | None = None
    external_event_date: datetime | None = None
    tags: tuple[str, ...] | None = None

    @property
    def happened_at(self) -> datetime | None:
        """The event's own date, else the date of its order; None for an event that happens when it is tracked.

        Windows, days of the week, periods of limits, expiry and reports use it, even if the event is reported late.
        """
        if self.external_event_date is not None:
            return self.external_event_date
        order_date = ((self.payload or {}).get("order") or {}).get("externalEventDate")
        return None if order_date is None else instant_of(order_date)


@dataclass(frozen=True, slots=True)
class LoyaltyEvent:
    """A stored event; `result` is the stored response to its request, None once it was removed.

    `evaluated_at` is the moment of the later evaluation of an event that was only captured at first.
    """

    organization_id: int
    loyalty_event_id: int
    loyalty_event_key: Key
    member_id: int
    sponsor_member_id: int | None
    event_type: str
    system_unique_key: str
    request_digest: Personal[Internal[bytes]]
    external_id: Personal[str | None]
    external_event_date: datetime | None
    description: Personal[str | None]
    reason: Personal[str | None]
    payload: Personal[Mapping[str, Any]]
    tags: Personal[tuple[str, ...] | None]
    location: Personal[str | None]
    e2e_tracking_id: str | None
    # The caller of the request: the subject of the token and its user.
    actor: str | None
    user_id: int | None
    reverted_loyalty_event_id: int | None
    reversal_loyalty_event_id: int | None
    # The event that made the server report this one.
    cause_loyalty_event_id: int | None
    evaluation_status: int
    status: str
    last_error: Personal[Mapping[str, Any] | None]
    limit_discarded_total_amount: Decimal
    limit_counters: tuple[Mapping[str, Any], ...]
    # The campaigns with a cooldown that had an effect; None for none.
    cooldown_campaign_ids: Internal[tuple[int, ...] | None]
    # The actions to be re-evaluated when a part of the order returns; None for none.
    grants: Personal[Internal[Mapping[str, Any] | None]]
    result: Personal[Mapping[str, Any] | None]
    evaluated_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def origin(self) -> EventOrigin:
        """The request that tracked the event, with its caller."""
        return EventOrigin(self.e2e_tracking_id, self.actor, self.user_id)

    @property
    def is_captured_only(self) -> bool:
        """True for a tracked event that was captured without evaluation and is still not evaluated."""
        is_from_client = self.reason is None
        return is_from_client and self.status == SUCCESS and self.evaluation_status == NOT_EVALUATED


class UnknownMember(NotFound, title="The member does not exist"):
    """The organization does not have the member of the event."""


class UnknownEventType(NotFound, title="The event type does not exist or is inactive"):
    """The event's type is neither built-in nor an active custom type of the organization."""


class NotTrackable(Conflict, slug="event-type-not-trackable", title="Events of this type cannot be tracked this way"):
    """Only the server itself can report events of this type, or they cannot be captured without an evaluation."""


class PayloadMissing(Conflict, title="A required payload field is missing"):
    """The payload lacks a part that the event's type requires."""


class EventNotCaptured(Conflict, title="The event does not wait for an evaluation by request"):
    """Only a captured event can be evaluated by request, and only before any part of its order was returned."""


class UnknownCampaign(NotFound, title="The campaign does not exist"):
    """The organization does not have the campaign that a request names."""
