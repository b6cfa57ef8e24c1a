"""Notifications of campaigns in a unit of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from domain.campaigns.context import EventFacts, Executor
from domain.campaigns.effects import NOTIFY
from domain.reversals import ReversedPart
from handlers.messages.base import json_able
from handlers.services.unit_of_work.derived_events import DerivedEvent
from handlers.services.unit_of_work.reversals import Reversal
from handlers.services.webhooks.outbox import queue_notifications

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork


class OutboxWork:
    """Notifications for the triggers of type `WebHook`; a notification is never reversed."""

    def __init__(self, unit: UnitOfWork) -> None:
        self._unit = unit
        self._notifications: list[dict[str, Any]] = []

    @property
    def executors(self) -> Mapping[str, Executor]:
        """The executor of the effect `notify`."""
        return {NOTIFY: self._notify}

    def take_derived(self) -> Sequence[DerivedEvent]:
        """Empty: a notification is no event."""
        return ()

    def reverse(self, event_id: int, by: Reversal) -> Sequence[ReversedPart]:
        """Empty: the cancellation of the event is reported instead."""
        return ()

    def flush(self) -> None:
        """Queue the notifications."""
        queue_notifications(self._unit.db, self._unit.configuration, self._notifications, self._unit.now)
        self._notifications = []

    def _notify(self, event: EventFacts, params: Mapping[str, Any]) -> None:
        self._notifications.append(
            {
                "name": params["name"],
                "data": json_able(params["data"] or {}),
                "eventType": event.event_type,
                "loyaltyEventKey": event.key,
                "memberId": event.member_id,
                "loyaltyMemberId": self._unit.members[event.member_id].loyalty_member_id,
            }
        )
