"""Notifications of campaigns in a unit of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from domain.campaigns.context import EventFacts
from domain.campaigns.limits import Alert
from handlers.messages.json_text import to_json_value
from handlers.messages.webhooks import LIMIT_REACHED, NOTIFICATION, limit_alert
from handlers.services.unit_of_work.reversals import Participant
from handlers.services.webhooks.outbox import queue_notifications

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork


class OutboxWork(Participant):
    """Notifications and alerts for the triggers of type `WebHook`.

    These messages cause no events and are never reversed: triggers learn of the cancellation of the event instead.
    """

    def __init__(self, unit: UnitOfWork) -> None:
        self._unit = unit
        self._notifications: list[dict[str, Any]] = []
        self._alerts: list[dict[str, Any]] = []

    def flush(self) -> None:
        """Queue the notifications and the alerts."""
        execution, configuration = self._unit.execution, self._unit.configuration
        queue_notifications(execution, configuration, NOTIFICATION, self._notifications)
        queue_notifications(execution, configuration, LIMIT_REACHED, self._alerts)
        self._notifications, self._alerts = [], []

    def report(self, alerts: Sequence[Alert]) -> None:
        """Report alerts of limits, unless the execution is quiet."""
        if not self._unit.execution.is_quiet:
            self._alerts += map(limit_alert, alerts)

    def notify(self, event: EventFacts, params: Mapping[str, Any]) -> None:
        """Execute the effect `notify`."""
        self._notifications.append(
            {
                "name": params["name"],
                "data": to_json_value(params["data"] or {}),
                "eventType": event.event_type,
                "loyaltyEventKey": event.key,
                "memberId": event.member_id,
                "loyaltyMemberId": self._unit.members[event.member_id].loyalty_member_id,
            }
        )
