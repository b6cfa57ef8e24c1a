"""The bodies of webhooks (integration 6, rules 3 to 5); the component file `webhooks` documents them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from domain.calendar import instant_text
from domain.campaigns.limits import Alert
from domain.members import Member
from handlers.messages.base import Shape
from handlers.messages.campaigns import limit_rule
from handlers.messages.events import event_record

EVENT_EVALUATED, EVENT_CANCELLED = "event.evaluated", "event.cancelled"
NOTIFICATION, LIMIT_REACHED = "campaign.notification", "campaign.limit-reached"
ASYNC_EVENT_EVALUATED = "async-event.evaluated"
USER_INVITED = "user.invited"

_ALERT = Shape(Alert, without=("rule",))


def message(message_type: str, data: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The body of a message of a type, such as `EVENT_EVALUATED`."""
    return {"type": message_type, "timestamp": instant_text(now), "data": data}


def event_data(row: Mapping[str, Any], member: Member) -> dict[str, Any]:
    """The data of the message about an event that was evaluated, or that cancelled another event.

    `row` is the stored row of the event.
    """
    return {
        "loyaltyMemberId": member.loyalty_member_id,
        "event": event_record(row),
        "payload": row["payload"],
        "result": row["result"],
    }


def limit_alert(alert: Alert) -> dict[str, Any]:
    """The data of the message about a share of a limit that is used for the first time in a period."""
    return {**_ALERT.dump(alert), "rule": limit_rule(alert.rule.api_form)}
