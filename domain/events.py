"""Loyalty events as they come in and as they are kept (integration 2.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.problems import Conflict, NotFound

SUCCESS, FAILURE = "success", "failed"
# Of events that are queued: those that nobody has looked at yet, and those of which an attempt failed.
PENDING, RUNNING = "pending", "running"
WAITING = frozenset({PENDING, RUNNING})

NOT_EVALUATED, EVALUATED, EVALUATION_FAILED = 0, 1, 2

# What the server reports because of an event may set off more, so far and not farther.
MAX_DEPTH, MAX_CAUSED = 5, 100

FULL, DRY_RUN, CAPTURE_ONLY, AUTHORIZE = "full", "dryRun", "captureOnly", "authorize"


@dataclass(frozen=True, slots=True)
class IncomingEvent:
    """An event as a client tracks it, or as the server emits it; the member by one of its two ids."""

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


@dataclass(frozen=True, slots=True)
class LoyaltyEvent:
    """An event as it was stored; `result` is the answer that its request got, or None once that was released.

    `evaluated_at` is when an event was evaluated that had only been captured.
    """

    organization_id: int
    loyalty_event_id: int
    loyalty_event_key: str
    member_id: int
    sponsor_member_id: int | None
    event_type: str
    system_unique_key: str
    request_digest: bytes
    external_id: str | None
    external_event_date: datetime | None
    description: str | None
    reason: str | None
    payload: Mapping[str, Any]
    tags: tuple[str, ...] | None
    location: str | None
    e2e_tracking_id: str | None
    reverted_loyalty_event_id: int | None
    reversal_loyalty_event_id: int | None
    cause_loyalty_event_id: int | None
    evaluation_status: int
    status: str
    last_error: Mapping[str, Any] | None
    limit_discarded_total_amount: Decimal
    limit_counters: tuple[Mapping[str, Any], ...]
    result: Mapping[str, Any] | None
    evaluated_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def is_captured_only(self) -> bool:
        """True for an event that a client tracked without having it evaluated, and that nothing has evaluated since."""
        is_clients = self.reason is None
        return is_clients and self.status == SUCCESS and self.evaluation_status == NOT_EVALUATED


class UnknownMember(NotFound):
    """The event names a member that the organization does not have."""

    slug = "unknown-member"
    title = "The member does not exist"


class UnknownEventType(NotFound):
    """The event's type is neither built in nor an active one of the organization's own."""

    slug = "unknown-event-type"
    title = "The event type does not exist or is inactive"


class NotTrackable(Conflict):
    """Only the server itself reports this."""

    slug = "event-type-not-trackable"
    title = "Events of this type are emitted by the server alone"


class PayloadMissing(Conflict):
    """The event's type needs a part of the payload that is not there."""

    slug = "payload-missing"
    title = "The payload lacks what events of this type need"


class EventNotCaptured(Conflict):
    """Only an event that was captured can be evaluated by request, and only while its order stands."""

    slug = "event-not-captured"
    title = "The event does not wait for an evaluation by request"


class UnknownCampaign(NotFound):
    """A request names a campaign that the organization does not have."""

    slug = "unknown-campaign"
    title = "The campaign does not exist"
