"""Triggers, and the deliveries of messages to their receivers.

Only the database's clock decides when a delivery is due, since the clocks of servers and workers may differ.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec import Raw
from sqlalchemy import Connection, func

from domain.problems import NameTaken
from domain.triggers import PENDING, DeliveryFigures, Subscription, Trigger, TriggerDelivery
from persistence.connections import defer, fetch_rows
from persistence.filters import contains
from persistence.prepared_statements import Prepared
from persistence.records import Records
from persistence.rows import as_json
from persistence.tables.triggers import trigger_deliveries as deliveries
from persistence.tables.triggers import triggers as table

TRIGGERS = Records(
    table,
    Trigger,
    equal=("type", "active"),
    filters={"name": contains(table.c.name)},
    conflicts={
        "uq_triggers_organization_id_trigger_key": (NameTaken, "A trigger with the key {trigger_key} already exists."),
    },
)
DELIVERIES = Records(deliveries, TriggerDelivery, equal=("status",))

# Organizations with few deliveries under way come first, and few deliveries of a trigger are claimed at once, so that
# neither an organization with many triggers nor a trigger with many deliveries blocks others. The lease is stored as
# the time of the next attempt: if a worker crashes, another worker claims the delivery when the lease expires.
_WITH_DUE = """
SELECT organization_id, array_agg(trigger_id) FROM (
    SELECT t.organization_id, t.trigger_id,
        coalesce(busy.under_way, 0) + row_number() OVER (PARTITION BY t.organization_id ORDER BY random()) AS place
    FROM triggers t
    LEFT JOIN unnest(%(organization_ids)s::bigint[], %(numbers_under_way)s::bigint[])
        AS busy(organization_id, under_way) ON busy.organization_id = t.organization_id
    CROSS JOIN LATERAL (
        SELECT 1 FROM trigger_deliveries d
        WHERE d.organization_id = t.organization_id AND d.trigger_id = t.trigger_id
            AND d.status = 'pending' AND d.next_attempt_at <= now()
        LIMIT 1
    ) due
    WHERE t.active AND t.trigger_id <> ALL(%(busy_triggers)s::bigint[])
        AND t.organization_id <> ALL(%(busy_organizations)s::bigint[])
        AND (%(organization_id)s::bigint IS NULL OR t.organization_id = %(organization_id)s)
    ORDER BY place, random() LIMIT %(limit)s
) x GROUP BY 1 ORDER BY min(place), random()
"""
_CLAIM = """
WITH due AS (
    SELECT d.trigger_delivery_id
    FROM unnest(%(trigger_ids)s::bigint[]) AS wanted(trigger_id)
    CROSS JOIN LATERAL (
        SELECT trigger_delivery_id FROM trigger_deliveries
        WHERE organization_id = %(organization_id)s AND trigger_id = wanted.trigger_id
            AND status = 'pending' AND next_attempt_at <= now()
        ORDER BY next_attempt_at LIMIT %(limit_of_trigger)s FOR UPDATE SKIP LOCKED
    ) d
    LIMIT %(limit)s
)
UPDATE trigger_deliveries d
SET attempts = d.attempts + 1, last_attempt_at = now(), next_attempt_at = now() + %(lease)s, updated_at = now()
FROM due, triggers t, organizations o
WHERE d.organization_id = %(organization_id)s AND d.trigger_delivery_id = due.trigger_delivery_id
    AND t.organization_id = d.organization_id AND t.trigger_id = d.trigger_id AND t.active
    AND o.organization_id = d.organization_id
RETURNING d.organization_id, d.trigger_id, d.trigger_delivery_id, d.trigger_delivery_key::text, d.payload::text,
    d.attempts, d.last_attempt_at, t.settings, t.secret,
    CASE WHEN t.previous_secret_until > d.last_attempt_at THEN t.previous_secret END,
    o.organization_key::text, d.type, d.member_id, d.created_at, o.clock_now IS NOT NULL
"""

# Each message is sent to the database once, however many triggers receive it.
_ADD = Prepared("""
INSERT INTO trigger_deliveries (organization_id, trigger_id, type, member_id, payload, status, created_at, updated_at)
SELECT %s::bigint, t.trigger_id, m.type, m.member_id, m.payload, 'pending', %s::timestamptz, %s::timestamptz
FROM json_to_recordset(%s::json)
    AS m(number integer, trigger_ids bigint[], type text, member_id bigint, payload json)
CROSS JOIN LATERAL unnest(m.trigger_ids) WITH ORDINALITY AS t(trigger_id, place)
ORDER BY m.number, t.place
""")

# Times are computed from numbers of seconds, which may be null: Citus allows now() neither inside of CASE nor in a sum
# with an interval of a column. Only deliveries that are unchanged since the claim: another worker may have retried one,
# or it was queued again.
_CONCLUDE = """
UPDATE trigger_deliveries d
SET status = x.status, next_attempt_at = to_timestamp(extract(epoch FROM now()) + x.wait_seconds),
    last_status_code = x.last_status_code, last_error = x.last_error,
    delivered_at = to_timestamp(extract(epoch FROM now()) + CASE WHEN x.status = 'succeeded' THEN 0 END),
    updated_at = now()
FROM json_to_recordset(%(rows)s::json) AS x(trigger_delivery_id bigint, attempts integer, last_attempt_at timestamptz,
    status text, wait_seconds double precision, last_status_code integer, last_error text)
WHERE d.organization_id = %(organization_id)s AND d.trigger_delivery_id = x.trigger_delivery_id
    AND d.status = 'pending' AND d.attempts = x.attempts AND d.last_attempt_at = x.last_attempt_at
"""

# Only if the URL is unchanged: the responses were those of the old URL.
_DEACTIVATE = """
UPDATE triggers t SET active = false, updated_at = now()
FROM json_to_recordset(%(rows)s::json) AS x(trigger_id bigint, url text)
WHERE t.organization_id = %(organization_id)s AND t.trigger_id = x.trigger_id
    AND t.settings->>'url' = x.url AND t.active
"""

# A pending delivery of an active trigger is never too old: it waits for a sender.
_REMOVE_OLD = """
WITH page AS (
    SELECT trigger_delivery_id, created_at FROM trigger_deliveries
    WHERE organization_id = %(organization_id)s AND trigger_delivery_id > %(after)s
    ORDER BY trigger_delivery_id LIMIT %(limit)s
), removed AS (
    DELETE FROM trigger_deliveries d USING triggers t
    WHERE d.organization_id = %(organization_id)s
        AND d.trigger_delivery_id = ANY(ARRAY(SELECT trigger_delivery_id FROM page))
        AND d.created_at < %(before)s
        AND t.organization_id = d.organization_id AND t.trigger_id = d.trigger_id
        AND (d.status <> 'pending' OR NOT t.active)
    RETURNING 1
)
SELECT max(trigger_delivery_id) FILTER (WHERE created_at < %(before)s), (SELECT count(*) FROM removed) FROM page
"""

_FIGURES = """
SELECT count(*), greatest(extract(epoch FROM now() - min(d.next_attempt_at)), 0),
    count(*) FILTER (WHERE d.last_error IS NOT NULL)
FROM trigger_deliveries d JOIN triggers t USING (organization_id, trigger_id)
WHERE d.status = 'pending' AND t.active
"""


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery to be sent now, with the settings and the secrets of its trigger; `payload` is JSON text.

    `previous_secret` is None unless it is still in use. `recorded_at` is the `timestamp` of the message, by the
    organization's test clock if it has one.
    """

    organization_id: int
    trigger_id: int
    trigger_delivery_id: int
    trigger_delivery_key: str
    payload: str
    attempts: int
    last_attempt_at: datetime
    settings: Mapping[str, Any]
    secret: str
    previous_secret: str | None
    organization_key: str
    type: str
    member_id: int | None
    recorded_at: datetime
    has_test_clock: bool


def find_subscriptions(db: Connection, organization_id: int) -> list[Subscription]:
    """The subscriptions of the active triggers, ordered by the ids of the triggers."""
    active_triggers = TRIGGERS.find_all(db, organization_id, active=True)
    return [
        Subscription(
            trigger.trigger_id,
            trigger.type,
            frozenset(trigger.settings["eventTypes"]),
            frozenset(trigger.settings["entities"]),
        )
        for trigger in active_triggers
    ]


def deactivate(db: Connection, deliveries: Sequence[ClaimedDelivery]) -> int:
    """Make the triggers of these deliveries inactive, unless their URL has changed.

    Returns how many triggers became inactive.
    """
    rows = [
        {
            "organization_id": claimed_delivery.organization_id,
            "trigger_id": claimed_delivery.trigger_id,
            "url": claimed_delivery.settings["url"],
        }
        for claimed_delivery in deliveries
    ]
    return sum(db.exec_driver_sql(_DEACTIVATE, parameters).rowcount for parameters in _by_organization(rows))


@dataclass(frozen=True, slots=True)
class Message:
    """A message for triggers: its type, its JSON text, and the id of the member whom it is about or None."""

    trigger_ids: Sequence[int]
    type: str
    text: str
    member_id: int | None


def add_deliveries(db: Connection, organization_id: int, messages: Sequence[Message], now: datetime) -> None:
    """Insert a delivery of each message for each of its triggers, to be sent as soon as possible.

    One deferred statement.
    """
    rows = [
        {
            "number": number,
            "trigger_ids": message.trigger_ids,
            "type": message.type,
            "member_id": message.member_id,
            "payload": Raw(message.text),
        }
        for number, message in enumerate(messages)
    ]
    defer(db, _ADD, (organization_id, now, now, as_json(rows)))


def queue_again(db: Connection, delivery: TriggerDelivery, now: datetime) -> TriggerDelivery:
    """Make a delivery due at once, with all attempts again; returns the changed delivery."""
    values = {"status": PENDING, "attempts": 0, "next_attempt_at": func.now(), "delivered_at": None}
    return DELIVERIES.store(db, delivery, values, now)


@dataclass(frozen=True, slots=True)
class ClaimLimits:
    """The maximum numbers of deliveries that are being sent at once: in total, and of a trigger."""

    total: int
    of_trigger: int

    def of_organization(self, count_of_others: int) -> int:
        """The maximum of an organization while `count_of_others` are being sent for other organizations.

        It is half of the places that the others leave free, so that an organization without deliveries finds a place.
        """
        return max(1, (self.total - count_of_others) // 2)


def claim_due(
    db: Connection,
    lease: timedelta,
    limits: ClaimLimits,
    under_way: Collection[ClaimedDelivery] = (),
    organization_id: int | None = None,
) -> list[ClaimedDelivery]:
    """Claim due deliveries of active triggers; no other worker can claim them during the `lease`.

    `under_way` are the deliveries that are being sent, which count for the limits. Without `organization_id`, the
    deliveries are those of all organizations. Organizations with few deliveries under way come first.
    """
    of_triggers = Counter(delivery.trigger_id for delivery in under_way)
    of_organizations = Counter(delivery.organization_id for delivery in under_way)

    def remaining_of(owner_id: int) -> int:
        """The number of deliveries of an organization that may still be claimed, 0 or less if none."""
        count, total = of_organizations[owner_id], of_organizations.total()
        return min(limits.total - total, limits.of_organization(total - count) - count)

    criteria = {
        "limit": limits.total - len(under_way),
        "busy_triggers": [trigger_id for trigger_id, count in of_triggers.items() if count >= limits.of_trigger],
        "busy_organizations": [owner_id for owner_id in of_organizations if remaining_of(owner_id) <= 0],
        "organization_ids": [*of_organizations.keys()],
        "numbers_under_way": [*of_organizations.values()],
        "organization_id": organization_id,
    }
    claimed_deliveries: list[ClaimedDelivery] = []
    for due_organization_id, trigger_ids in fetch_rows(db, _WITH_DUE, criteria):
        remaining = remaining_of(due_organization_id)
        if remaining <= 0:
            continue
        values = {
            "lease": lease,
            "limit_of_trigger": limits.of_trigger,
            "organization_id": due_organization_id,
            "trigger_ids": trigger_ids,
            "limit": remaining,
        }
        new_claims = [ClaimedDelivery(*row) for row in fetch_rows(db, _CLAIM, values)]
        of_organizations[due_organization_id] += len(new_claims)
        claimed_deliveries += new_claims
    return claimed_deliveries


def conclude(db: Connection, outcomes: Sequence[Mapping[str, Any]]) -> None:
    """Store the results of claimed deliveries, with one deferred statement for each organization."""
    for parameters in _by_organization(outcomes):
        defer(db, _CONCLUDE, parameters)


def _by_organization(rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """For each organization, the values of a statement that has its rows."""
    owner = itemgetter("organization_id")
    for organization_id, rows_of_organization in groupby(sorted(rows, key=owner), owner):
        yield {"organization_id": organization_id, "rows": as_json(list(rows_of_organization))}


class RemovedDeliveries(NamedTuple):
    """The last id that was old enough to be removed, None if none was, and the number of removed deliveries."""

    last_id: int | None
    removed_count: int


def remove_old_deliveries(
    db: Connection, organization_id: int, after: int, before: datetime, limit: int
) -> RemovedDeliveries:
    """Read at most `limit` deliveries after the id `after`, and remove the ones that were created before `before`.

    Pending deliveries of active triggers stay.
    """
    values = {"organization_id": organization_id, "after": after, "before": before, "limit": limit}
    return RemovedDeliveries(*db.exec_driver_sql(_REMOVE_OLD, values).one())


def figures(db: Connection) -> DeliveryFigures:
    """Figures of pending deliveries in all organizations."""
    pending, overdue, retrying = db.exec_driver_sql(_FIGURES).one()
    return DeliveryFigures(pending, float(overdue or 0), retrying)
