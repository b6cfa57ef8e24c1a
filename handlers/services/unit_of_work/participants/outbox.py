"""Notifications of campaigns in a unit of work."""

from collections.abc import Mapping, Sequence
from typing import Any

from domain.campaigns.effects import NOTIFY
from domain.campaigns.facts import EventFacts, Executor
from domain.reversals import ReversedPart
from handlers.messages.base import json_able
from handlers.services.unit_of_work.derived_events import DerivedEvent
from handlers.services.unit_of_work.scope import Reversal, UnitScope
from handlers.services.webhooks.outbox import queue_notifications


class OutboxWork:
    """Notifications for the triggers of type `WebHook`; a notification is never reversed."""

    def __init__(self, scope: UnitScope) -> None:
        self._scope = scope
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
        queue_notifications(self._scope.db, self._scope.configuration, self._notifications, self._scope.now)
        self._notifications = []

    def _notify(self, event: EventFacts, params: Mapping[str, Any]) -> None:
        self._notifications.append(
            {
                "name": params["name"],
                "data": json_able(params["data"] or {}),
                "eventType": event.event_type,
                "loyaltyEventKey": event.key,
                "memberId": event.member_id,
                "loyaltyMemberId": self._scope.members[event.member_id].loyalty_member_id,
            }
        )
