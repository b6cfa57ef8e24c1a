"""Triggers: who outside is told what happens here, and what waits to be told (administration "Events... triggers")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.problems import Conflict

WEB_HOOK, ENTITY_CHANGE, ASYNC_TRACK = "WebHook", "EntityChangeWebhook", "AsyncTrackWebhook"

MEMBER, COUPON_BOOK, CAMPAIGN, PURCHASE_ORDER = "member", "coupon-book", "campaign", "purchase-order"
# No kind of record: told only to triggers that name it, since it can hold the password of a new user.
USER_INVITATION = "user-invitation"
CREATED, UPDATED = "created", "updated"

PENDING, SUCCEEDED, FAILED = "pending", "succeeded", "failed"


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger; `settings` are as on the wire, but for the secrets.

    `previous_secret` signs beside `secret` until `previous_secret_until`, so that a receiver has time to change over.
    """

    organization_id: int
    trigger_id: int
    trigger_key: str
    type: str
    name: str
    active: bool
    settings: Mapping[str, Any]
    secret: str
    previous_secret: str | None
    previous_secret_until: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Listener:
    """An active trigger as those know it who have something to tell; an empty set listens to everything."""

    trigger_id: int
    type: str
    event_types: frozenset[str]
    entities: frozenset[str]

    def hears_event(self, event_type: str) -> bool:
        """True if the trigger is told of events of this type."""
        return not self.event_types or event_type in self.event_types

    def hears_entity(self, entity: str) -> bool:
        """True if the trigger is told of changes of records of this kind."""
        return self.type == ENTITY_CHANGE and (not self.entities or entity in self.entities)

    @property
    def hears_invitations(self) -> bool:
        """True if the trigger is told of invitations of users."""
        return self.type == ENTITY_CHANGE and USER_INVITATION in self.entities


@dataclass(frozen=True, slots=True)
class TriggerDelivery:
    """One message to one trigger's receiver, and what became of it.

    `attempts` counts those begun since the message was queued, or queued again. While one is under way,
    `next_attempt_at` is when the next begins if nothing is heard of it any more.
    """

    organization_id: int
    trigger_delivery_id: int
    trigger_delivery_key: str
    trigger_id: int
    type: str
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
    """What is pending for active triggers of all organizations: how many, how many of them failed before.

    `overdue_seconds` is for how long the one that is due longest has been due.
    """

    pending: int
    overdue_seconds: float
    retrying: int


class TriggerInactive(Conflict):
    """Nothing is sent for a trigger that is not active."""

    slug = "trigger-inactive"
    title = "The trigger is not active"
