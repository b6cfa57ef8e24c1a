"""Triggers: receivers outside the server, and messages to them (administration "Events... triggers")."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.fields import Internal, Key
from domain.problems import Conflict

# The types of triggers, the kinds of records whose changes they receive, and the kinds of changes.
WEB_HOOK, ENTITY_CHANGE, ASYNC_TRACK = "WebHook", "EntityChangeWebhook", "AsyncTrackWebhook"

MEMBER, COUPON_BOOK, CAMPAIGN, PURCHASE_ORDER = "member", "coupon-book", "campaign", "purchase-order"
# Not a kind of record: sent only to triggers that name it, since it can contain the password of a new user.
USER_INVITATION = "user-invitation"
CREATED, UPDATED = "created", "updated"

# The statuses of deliveries.
PENDING, SUCCEEDED, FAILED = "pending", "succeeded", "failed"


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger; `settings` are in the form of the API, without the secrets.

    `previous_secret` signs in addition to `secret` until `previous_secret_until`, which gives receivers time to change.
    """

    organization_id: int
    trigger_id: int
    trigger_key: str
    type: str
    name: str
    active: bool
    settings: Mapping[str, Any]
    secret: Internal[str]
    previous_secret: Internal[str | None]
    previous_secret_until: datetime | None
    external_key: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Subscription:
    """The fields of an active trigger that select its messages; an empty set selects all."""

    trigger_id: int
    type: str
    event_types: frozenset[str]
    entities: frozenset[str]

    def includes_event(self, event_type: str) -> bool:
        """True if the trigger receives events of this type."""
        return not self.event_types or event_type in self.event_types

    def includes_entity(self, entity: str) -> bool:
        """True if the trigger receives changes of records of this kind."""
        return self.type == ENTITY_CHANGE and (not self.entities or entity in self.entities)

    @property
    def includes_invitations(self) -> bool:
        """True if the trigger receives invitations of users."""
        return self.type == ENTITY_CHANGE and USER_INVITATION in self.entities


@dataclass(frozen=True, slots=True)
class TriggerDelivery:
    """A message to one trigger's receiver, and its state.

    `attempts` counts the attempts since the message was queued, or queued again. While an attempt is under way,
    `next_attempt_at` is the time of the next attempt in case the present one never reports.
    """

    organization_id: int
    trigger_delivery_id: int
    trigger_delivery_key: Key
    trigger_id: int
    type: str
    # Stored as JSON text, so that every attempt sends, and signs, the same bytes.
    payload: Mapping[str, Any]
    status: str
    attempts: int
    next_attempt_at: datetime | None
    last_attempt_at: datetime | None
    last_status_code: int | None
    last_error: str | None
    delivered_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class DeliveryFigures:
    """Pending deliveries of active triggers in all organizations: their number, and how many of them failed before.

    `overdue_seconds` is the time since the longest overdue delivery was due.
    """

    pending: int
    overdue_seconds: float
    retrying: int


class TriggerLimit(Conflict, title="The organization has the maximum number of active triggers"):
    """Another active trigger would exceed the maximum."""


class TriggerInactive(Conflict, title="The trigger is not active"):
    """An inactive trigger sends nothing."""
