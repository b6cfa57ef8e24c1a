"""Messages for triggers, stored in the database transaction of the change that they report, and sent later.

If no active trigger listens, nothing is read or written.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from domain.events import NOT_EVALUATED
from domain.members import Member
from domain.organizations import Organization
from domain.triggers import ASYNC_TRACK, WEB_HOOK, Listener
from handlers.call import Call
from handlers.messages.webhooks import (
    ASYNC_EVENT_EVALUATED,
    EVENT_CANCELLED,
    EVENT_EVALUATED,
    event_data,
    message,
)
from handlers.services.configuration import Configuration, configuration_of
from persistence import triggers


@dataclass(frozen=True, slots=True)
class AsyncResult:
    """The result of an asynchronously tracked event; `result` is as in the response of synchronous tracking."""

    event_type: str
    member_id: int
    loyalty_member_id: str
    result: Mapping[str, Any]


def queue_events(
    db: Connection,
    configuration: Configuration,
    rows: Sequence[Mapping[str, Any]],
    members: Mapping[int, Member],
    now: datetime,
) -> None:
    """Queue messages about evaluated or cancelled events, given as stored rows; at most one statement."""
    listeners = [listener for listener in configuration.listeners if listener.type == WEB_HOOK]
    messages = []
    for row in rows if listeners else ():
        trigger_ids = [listener.trigger_id for listener in listeners if listener.hears_event(row["event_type"])]
        was_evaluated = row["evaluation_status"] != NOT_EVALUATED
        # An event that was not evaluated is either a cancellation, which reverts another event, or was only stored.
        if trigger_ids and (was_evaluated or row["reverted_loyalty_event_id"] is not None):
            type_ = EVENT_EVALUATED if was_evaluated else EVENT_CANCELLED
            body = message(type_, event_data(row, members[row["member_id"]]), now)
            messages += [(trigger_id, type_, body, row["member_id"]) for trigger_id in trigger_ids]
    _queue(db, configuration, messages, now)


def queue_notifications(
    db: Connection,
    configuration: Configuration,
    type_: str,
    notifications: Sequence[Mapping[str, Any]],
    now: datetime,
) -> None:
    """Queue notifications of campaigns for all triggers of the type WebHook; at most one statement."""
    listeners = [listener for listener in configuration.listeners if listener.type == WEB_HOOK]
    queue_to(db, configuration, listeners, type_, notifications, now)


def queue_async_results(
    db: Connection, organization: Organization, results: Sequence[AsyncResult], now: datetime
) -> None:
    """Queue results of asynchronously tracked events; at most one statement."""
    configuration = configuration_of(db, organization)
    listeners = [listener for listener in configuration.listeners if listener.type == ASYNC_TRACK]
    messages = []
    for result in results if listeners else ():
        data = {
            "eventType": result.event_type,
            "memberId": result.member_id,
            "loyaltyMemberId": result.loyalty_member_id,
            "result": result.result,
        }
        body = message(ASYNC_EVENT_EVALUATED, data, now)
        messages += [
            (listener.trigger_id, ASYNC_EVENT_EVALUATED, body, result.member_id)
            for listener in listeners
            if listener.hears_event(result.event_type)
        ]
    _queue(db, configuration, messages, now)


def queue_entity_change(call: Call, entity: str, action: str, record: Callable[[], Mapping[str, Any]]) -> None:
    """Queue a message that a record was created or updated; `record` returns its JSON object.

    `record` is called only if a trigger subscribes to records of this kind.
    """
    queue_entity_changes(call, entity, action, lambda: [record()])


def queue_entity_changes(
    call: Call, entity: str, action: str, records_of: Callable[[], Iterable[Mapping[str, Any]]]
) -> None:
    """Queue messages that records of one kind were created or updated; at most one statement.

    `records_of` returns their JSON objects; it is called only if a trigger subscribes to records of this kind.
    """
    configuration = configuration_of(call.db, call.organization)
    if any(listener.hears_entity(entity) for listener in configuration.listeners):
        changes = [(action, record) for record in records_of()]
        queue_entities(call.db, configuration, entity, changes, call.now)


def queue_entities(
    db: Connection,
    configuration: Configuration,
    entity: str,
    changes: Sequence[tuple[str, Mapping[str, Any]]],
    now: datetime,
) -> None:
    """Queue messages about records of one kind; at most one statement.

    Each change is an action and the JSON object of the record.
    """
    trigger_ids = [listener.trigger_id for listener in configuration.listeners if listener.hears_entity(entity)]
    messages = []
    for action, record in changes if trigger_ids else ():
        type_ = f"{entity}.{action}"
        body = message(type_, {"entity": entity, "action": action, "record": record}, now)
        messages += [(trigger_id, type_, body, record.get("memberId")) for trigger_id in trigger_ids]
    _queue(db, configuration, messages, now)


def queue_to(
    db: Connection,
    configuration: Configuration,
    listeners: Sequence[Listener],
    type_: str,
    data: Sequence[Mapping[str, Any]],
    now: datetime,
) -> None:
    """Queue a message with each of `data` for each of these triggers; at most one statement."""
    messages = [
        (listener.trigger_id, type_, message(type_, item, now), item.get("memberId"))
        for item in data
        for listener in listeners
    ]
    _queue(db, configuration, messages, now)


def _queue(db: Connection, configuration: Configuration, messages: Sequence[Any], now: datetime) -> None:
    """Queue messages, each as (trigger id, type, body, member id or None)."""
    if messages:
        triggers.add_deliveries(db, configuration.organization_id, messages, now)
