"""Messages for triggers, stored in the database transaction of the change that they report, and sent later.

If no active trigger listens, nothing is read or written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from domain.events import NOT_EVALUATED
from domain.members import Member
from domain.problems import DeadlineExceeded
from domain.triggers import ASYNC_TRACK, WEB_HOOK, Subscription
from handlers.call import Call, Execution
from handlers.messages.webhooks import (
    ASYNC_EVENT_EVALUATED,
    EVENT_CANCELLED,
    EVENT_EVALUATED,
    event_data,
    message,
)
from handlers.services.configuration import Configuration, configuration_of
from persistence import triggers
from persistence.rows import as_json
from persistence.triggers import Message

MAX_DELIVERIES = 10_000
"""The maximum number of messages of one kind, counted once for each trigger, that a transaction may queue."""

MAX_DELIVERED_CHARACTERS = 32 * 1024**2
"""The maximum total length of these messages."""

_MAX_MEBIBYTES = MAX_DELIVERED_CHARACTERS // 1024**2
_BEYOND_LIMITS = f"more than {MAX_DELIVERIES:,} messages for triggers, or more than {_MAX_MEBIBYTES} MiB of them"


class TooManyMessages(Exception):
    """A transaction of a job has more messages for triggers than it may queue."""

    def __str__(self) -> str:
        return _BEYOND_LIMITS


@dataclass(frozen=True, slots=True)
class AsyncResult:
    """The result of an asynchronously tracked event; `result` is as in the response of synchronous tracking."""

    event_type: str
    member_id: int
    loyalty_member_id: str
    result: Mapping[str, Any]


def queue_events(
    execution: Execution,
    configuration: Configuration,
    rows: Sequence[Mapping[str, Any]],
    members: Mapping[int, Member],
) -> None:
    """Queue messages about evaluated or cancelled events, given as stored rows; at most one statement."""
    subscriptions = [subscription for subscription in configuration.subscriptions if subscription.type == WEB_HOOK]
    messages = []
    considered_rows = rows if subscriptions else ()
    for row in considered_rows:
        trigger_ids = [
            subscription.trigger_id for subscription in subscriptions if subscription.includes_event(row["event_type"])
        ]
        was_evaluated = row["evaluation_status"] != NOT_EVALUATED
        # An event that was not evaluated is either a cancellation, which reverts another event, or was only stored.
        if trigger_ids and (was_evaluated or row["reverted_loyalty_event_id"] is not None):
            message_type = EVENT_EVALUATED if was_evaluated else EVENT_CANCELLED
            body = message(message_type, event_data(row, members[row["member_id"]]), execution.now)
            messages.append(_message(trigger_ids, message_type, body, row["member_id"]))
    _queue_limited(execution, messages)


def queue_notifications(
    execution: Execution,
    configuration: Configuration,
    message_type: str,
    notifications: Sequence[Mapping[str, Any]],
) -> None:
    """Queue notifications of campaigns for all triggers of the type WebHook; at most one statement."""
    subscriptions = [subscription for subscription in configuration.subscriptions if subscription.type == WEB_HOOK]
    queue_to(execution, subscriptions, message_type, notifications)


def queue_async_results(execution: Execution, results: Sequence[AsyncResult]) -> None:
    """Queue results of asynchronously tracked events; at most one statement."""
    configuration = configuration_of(execution.db, execution.organization)
    subscriptions = [subscription for subscription in configuration.subscriptions if subscription.type == ASYNC_TRACK]
    messages = []
    considered_results = results if subscriptions else ()
    for result in considered_results:
        trigger_ids = [
            subscription.trigger_id for subscription in subscriptions if subscription.includes_event(result.event_type)
        ]
        if trigger_ids:
            data = {
                "eventType": result.event_type,
                "memberId": result.member_id,
                "loyaltyMemberId": result.loyalty_member_id,
                "result": result.result,
            }
            body = message(ASYNC_EVENT_EVALUATED, data, execution.now)
            messages.append(_message(trigger_ids, ASYNC_EVENT_EVALUATED, body, result.member_id))
    _queue_limited(execution, messages)


def queue_entity_change(call: Call, entity: str, action: str, record: Callable[[], Mapping[str, Any]]) -> None:
    """Queue a message that a record was created or updated; `record` returns its JSON object.

    `record` is called only if a trigger subscribes to records of this kind.
    """
    queue_entity_changes(call, entity, action, lambda: [record()])


def queue_entity_changes(
    call: Call, entity: str, action: str, records_of: Callable[[], Iterable[Mapping[str, Any]]]
) -> None:
    """Queue messages about created or updated records of one kind; at most one statement.

    `records_of` returns their JSON objects; it is called only if a trigger subscribes to records of this kind.
    """
    configuration = configuration_of(call.db, call.organization)
    if any(subscription.includes_entity(entity) for subscription in configuration.subscriptions):
        changes = [(action, record) for record in records_of()]
        queue_entities(call, configuration, entity, changes)


def queue_entities(
    execution: Execution,
    configuration: Configuration,
    entity: str,
    changes: Sequence[tuple[str, Mapping[str, Any]]],
) -> None:
    """Queue messages about records of one kind; at most one statement.

    Each change is an action and the JSON object of the record.
    """
    trigger_ids = [
        subscription.trigger_id for subscription in configuration.subscriptions if subscription.includes_entity(entity)
    ]
    messages = []
    considered_changes = changes if trigger_ids else ()
    for action, record in considered_changes:
        message_type = f"{entity}.{action}"
        body = message(message_type, {"entity": entity, "action": action, "record": record}, execution.now)
        messages.append(_message(trigger_ids, message_type, body, record.get("memberId")))
    _queue_limited(execution, messages)


def queue_to(
    execution: Execution, subscriptions: Sequence[Subscription], message_type: str, data: Sequence[Mapping[str, Any]]
) -> None:
    """Queue a message with each of `data` for each of these triggers; at most one statement."""
    trigger_ids = [subscription.trigger_id for subscription in subscriptions]
    messages = [
        _message(trigger_ids, message_type, message(message_type, item, execution.now), item.get("memberId"))
        for item in (data if trigger_ids else ())
    ]
    _queue_limited(execution, messages)


def _message(trigger_ids: Sequence[int], message_type: str, body: Mapping[str, Any], member_id: int | None) -> Message:
    return Message(trigger_ids, message_type, as_json(body), member_id)


def _queue_limited(execution: Execution, messages: Sequence[Message]) -> None:
    """Queue messages: add a delivery of each message for each of its triggers.

    If there are too many deliveries, or too large ones, raises DeadlineExceeded for an awaited call, and
    TooManyMessages for a job with `limits_messages`.
    """
    is_limited = execution.is_awaited or execution.limits_messages
    delivery_count = sum(len(message.trigger_ids) for message in messages)
    if is_limited and (
        delivery_count > MAX_DELIVERIES
        or sum(len(message.trigger_ids) * len(message.text) for message in messages) > MAX_DELIVERED_CHARACTERS
    ):
        if not execution.is_awaited:
            raise TooManyMessages
        raise DeadlineExceeded(
            f"The call causes {_BEYOND_LIMITS}. Nothing was changed. Send fewer or smaller records in a call."
        )
    if messages:
        triggers.add_deliveries(execution.db, execution.organization.organization_id, messages, execution.now)
