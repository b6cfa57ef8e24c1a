"""Loyalty events: the queries of tracking, and lists of tracked events."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection

from domain.campaigns.cooldowns import Application
from domain.events import LoyaltyEvent
from persistence.connections import fetch_rows
from persistence.filters import is_at_or_after, is_before
from persistence.prepared_statements import Prepared
from persistence.records import Records
from persistence.rows import add_all, change_all, fields_of, next_ids_sql, update_by_id
from persistence.tables.events import events

EVENTS = Records(
    events,
    LoyaltyEvent,
    equal=("eventType", "status"),
    filters={"fromCreatedAt": is_at_or_after(events.c.created_at), "toCreatedAt": is_before(events.c.created_at)},
)

_FIELDS = fields_of(LoyaltyEvent)
# The events of an erased member lose their digests, also while a job is still erasing them.
_EARLIER_EVENTS = Prepared("""
SELECT e.system_unique_key,
    CASE WHEN EXISTS (
        SELECT FROM unfinished_erasings u WHERE u.organization_id = %s AND u.member_id = e.member_id
    ) THEN CAST('' AS bytea) ELSE e.request_digest END,
    e.result, e.loyalty_event_id, e.created_at
FROM events e WHERE e.organization_id = %s AND e.system_unique_key = ANY(%s)
""")

_EXISTING = """
SELECT ARRAY(SELECT system_unique_key FROM events WHERE organization_id = %s AND system_unique_key = ANY(%s)),
    ARRAY(SELECT external_id FROM purchase_orders WHERE organization_id = %s AND external_id = ANY(%s))
"""

_APPLICATIONS = Prepared("""
SELECT unnest(cooldown_campaign_ids), member_id, loyalty_event_id, coalesce(external_event_date, created_at)
FROM events WHERE organization_id = %s AND member_id = ANY(%s::bigint[]) AND cooldown_campaign_ids IS NOT NULL
    AND coalesce(external_event_date, created_at) BETWEEN %s AND %s AND reversal_loyalty_event_id IS NULL
""")

_FINISHED_COLUMNS = (
    "loyalty_event_id",
    "location",
    "reverted_loyalty_event_id",
    "evaluation_status",
    "status",
    "last_error",
    "limit_discarded_total_amount",
    "limit_counters",
    "cooldown_campaign_ids",
    "grants",
    "result",
    "evaluated_at",
    "updated_at",
)
_FINISH = update_by_id(events, *_FINISHED_COLUMNS)

# Ids and times of creation grow together: from the first event that is too new on, all are too new.
_RELEASE = """
WITH page AS (
    SELECT loyalty_event_id, created_at FROM events
    WHERE organization_id = %(organization_id)s AND loyalty_event_id > %(after)s
    ORDER BY loyalty_event_id LIMIT %(limit)s
), newer AS (
    SELECT min(loyalty_event_id) AS first_id FROM page WHERE created_at >= %(before)s
), released AS (
    UPDATE events e SET request_digest = '', result = 'null'
    FROM page p, newer n
    WHERE e.organization_id = %(organization_id)s AND e.loyalty_event_id = p.loyalty_event_id
        AND (n.first_id IS NULL OR p.loyalty_event_id < n.first_id)
        AND CAST(e.result AS text) <> 'null' AND e.status NOT IN ('pending', 'running')
    RETURNING 1
)
SELECT (SELECT max(loyalty_event_id) FROM page), (SELECT first_id FROM newer), (SELECT count(*) FROM released)
"""


class EarlierEvent(NamedTuple):
    """The part of a tracked event that a repeated request needs; `digest` is that of the first request."""

    digest: bytes
    result: Mapping[str, Any]
    loyalty_event_id: int
    created_at: datetime


class ReleasedPage(NamedTuple):
    """The result of `release_answers`; `released` is the number of events whose results were removed.

    `last_id` is the last id of the page, None if the page is empty. `first_newer_id` is the first id on the page that
    is too new to be released, None if there is none.
    """

    last_id: int | None
    first_newer_id: int | None
    released: int


@cache
def _look_up_statement(tables: tuple[str, ...]) -> Prepared:
    """The statement of `find_existing_and_reserve_ids` that reserves ids of these tables."""
    return Prepared(_EXISTING + "".join(f", {next_ids_sql(table)}" for table in tables))


@dataclass(frozen=True, slots=True)
class ExistingAndNewIds:
    """The keys of events and the external ids of orders that already exist, and reserved ids for new rows, by table."""

    keys: Collection[str]
    order_ids: Collection[str]
    ids: Mapping[str, Sequence[int]]


def find_existing_and_reserve_ids(
    db: Connection, organization_id: int, keys: Collection[str], order_ids: Collection[str], **counts: int
) -> ExistingAndNewIds:
    """Find the keys of events and the external ids of orders that exist, and reserve ids, in one statement.

    `counts` are the numbers of ids to be reserved, by table.
    """
    requested = {table: count for table, count in counts.items() if count}
    values = (organization_id, list(keys), organization_id, list(order_ids), *requested.values())
    [(existing_keys, existing_order_ids, *ids)] = fetch_rows(db, _look_up_statement(tuple(requested)), values)
    return ExistingAndNewIds(existing_keys, existing_order_ids, dict(zip(requested, ids, strict=True)))


def find_earlier_events(db: Connection, organization_id: int, keys: Collection[str]) -> dict[str, EarlierEvent]:
    """The events that were tracked with these keys, by key."""
    rows = fetch_rows(db, _EARLIER_EVENTS, (organization_id, organization_id, list(keys)))
    return {key: EarlierEvent(bytes(digest), *event) for key, digest, *event in rows}


def find_applications(
    db: Connection, organization_id: int, member_ids: Collection[int], first: datetime, last: datetime
) -> list[Application]:
    """The events of these members, from `first` to `last`, on which campaigns with a cooldown had an effect.

    An event is returned once for each of these campaigns. Reversed events are left out.
    """
    return [
        Application(*row) for row in fetch_rows(db, _APPLICATIONS, (organization_id, list(member_ids), first, last))
    ]


def add_events(db: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert events, whose ids were reserved; a row has every field of LoyaltyEvent."""
    add_all(db, events, rows, names=_FIELDS)


def release_answers(db: Connection, organization_id: int, after: int, before: datetime, limit: int) -> ReleasedPage:
    """Remove the results and request digests of the next events after the id `after` that are older than `before`.

    Results need most of the space of an event, and are only needed to respond to a repeated request. Reads at most
    `limit` events, ordered by id.
    """
    values = {"organization_id": organization_id, "after": after, "before": before, "limit": limit}
    return ReleasedPage(*db.exec_driver_sql(_RELEASE, values).one())


def finish_events(db: Connection, organization_id: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store the results of events that were stored before; a row has every field of LoyaltyEvent."""
    change_all(db, _FINISH, organization_id, [{name: row[name] for name in _FINISHED_COLUMNS} for row in rows])
