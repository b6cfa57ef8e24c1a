"""Telling triggers: messages are rows, written with what they tell in one database transaction, and sent later.

Where no active trigger listens, nothing is read or written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    NOTIFICATION,
    event_data,
    message,
)
from handlers.services.configuration import Configuration, configuration_of
from persistence import triggers


@dataclass(frozen=True, slots=True)
class AsyncResult:
    """What became of an event that was tracked asynchronously; `result` is as in the answer of synchronous tracking."""

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
    """Tell of events that were evaluated or cancelled, given as their rows; at most one statement."""
    listeners = [listener for listener in configuration.listeners if listener.type == WEB_HOOK]
    messages = []
    for row in rows if listeners else ():
        heard_by = [listener.trigger_id for listener in listeners if listener.hears_event(row["event_type"])]
        was_evaluated = row["evaluation_status"] != NOT_EVALUATED
        # What undid another event without being evaluated is a cancellation; all else was only kept.
        if heard_by and (was_evaluated or row["reverted_loyalty_event_id"] is not None):
            type_ = EVENT_EVALUATED if was_evaluated else EVENT_CANCELLED
            body = message(type_, event_data(row, members[row["member_id"]]), now)
            messages += [(trigger_id, type_, body, row["member_id"]) for trigger_id in heard_by]
    _queue(db, configuration, messages, now)


def queue_notifications(
    db: Connection, configuration: Configuration, notifications: Sequence[Mapping[str, Any]], now: datetime
) -> None:
    """Tell what campaigns have to say, to all triggers of the type; at most one statement."""
    listeners = [listener.trigger_id for listener in configuration.listeners if listener.type == WEB_HOOK]
    messages = [
        (trigger_id, NOTIFICATION, message(NOTIFICATION, data, now), data["memberId"])
        for data in notifications
        for trigger_id in listeners
    ]
    _queue(db, configuration, messages, now)


def queue_async_results(
    db: Connection, organization: Organization, results: Sequence[AsyncResult], now: datetime
) -> None:
    """Tell what became of events that were tracked asynchronously; at most one statement."""
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


def entity_changed(call: Call, entity: str, action: str, record: Callable[[], Mapping[str, Any]]) -> None:
    """Tell that a record was created or updated; `record` makes its JSON, and is not called if nobody listens.

    Whoever changes what is part of the configuration has read the configuration before, as for every check.
    """
    configuration = configuration_of(call.db, call.organization)
    if any(listener.hears_entity(entity) for listener in configuration.listeners):
        queue_entities(call.db, configuration, entity, [(action, record())], call.now)


def queue_entities(
    db: Connection,
    configuration: Configuration,
    entity: str,
    changes: Sequence[tuple[str, Mapping[str, Any]]],
    now: datetime,
) -> None:
    """Tell of records of one kind that were created or updated, given as their JSON; at most one statement."""
    listeners = [listener.trigger_id for listener in configuration.listeners if listener.hears_entity(entity)]
    messages = []
    for action, record in changes if listeners else ():
        type_ = f"{entity}.{action}"
        body = message(type_, {"entity": entity, "action": action, "record": record}, now)
        messages += [(trigger_id, type_, body, record.get("memberId")) for trigger_id in listeners]
    _queue(db, configuration, messages, now)


def queue_to(
    db: Connection,
    configuration: Configuration,
    listeners: Sequence[Listener],
    type_: str,
    data: Sequence[Mapping[str, Any]],
    now: datetime,
) -> None:
    """Tell each of these triggers each of these things; at most one statement."""
    messages = [
        (listener.trigger_id, type_, message(type_, item, now), None) for item in data for listener in listeners
    ]
    _queue(db, configuration, messages, now)


def _queue(db: Connection, configuration: Configuration, messages: Sequence[Any], now: datetime) -> None:
    if messages:
        triggers.add_deliveries(db, configuration.organization_id, messages, now)
