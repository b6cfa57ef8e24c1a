"""The queue of events: each member's line of events, claims by workers, and results of attempts.

Every member has a line, in the order in which events were accepted. Only its first event (the head) can be claimed,
which claims the whole line. Lines grow only at their end, under the lock of the member's row, so that no event gets in
front of a head.

An event is due at once until it fails. From then on only the database's clock decides when it is due, since the clocks
of servers and workers may differ.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, select, text

from domain.events import LoyaltyEvent
from domain.members import Member
from domain.queue import DeadLetter, QueuedEvent, QueueFigures
from persistence import organizations
from persistence.connections import defer
from persistence.events import EVENTS
from persistence.filters import conditions_of, equals, has_row, is_same
from persistence.paging import Page, Paged, paged_columns, sorting_of
from persistence.rows import as_json, columns_of, reserve_ids
from persistence.tables.events import events, queued_events
from persistence.tables.members import members

DEAD_LETTER_ORDER = {
    "loyaltyEventId": events.c.loyalty_event_id,
    "eventType": events.c.event_type,
    "createdAt": events.c.created_at,
    "attempts": queued_events.c.attempts,
    "deadAt": queued_events.c.dead_at,
}

# The payloads that are read at once. One may have a megabyte, and needs up to thirty times as much in memory.
MAX_BYTES = 4 * 1024 * 1024

_EVENT_COLUMNS = ", ".join(f"e.{column.name}" for column in columns_of(events, LoyaltyEvent))
# Events that are queued are not evaluated yet, so the customAttributes, up to 64 KiB for each member, are left out.
_MEMBER_COLUMNS = ", ".join(
    "'{}'::jsonb" if column.name == "custom_attributes" else f"m.{column.name}"
    for column in columns_of(members, Member)
)

# Tracking and workers do not acquire this lock, so calls that queue events mostly wait only for each other.
_LOCK_MEMBERS = f"""
SELECT {_MEMBER_COLUMNS} FROM members m
WHERE m.organization_id = %s AND m.loyalty_member_id = ANY(%s)
ORDER BY m.member_id FOR NO KEY UPDATE
"""

_ADD = """
INSERT INTO queued_events (organization_id, loyalty_event_id, member_id, place, attempts, next_attempt_at, queued_at)
SELECT %(organization_id)s, x.loyalty_event_id, x.member_id, x.place, 0, now(), now()
FROM json_to_recordset(%(rows)s::json) AS x(loyalty_event_id bigint, member_id bigint, place bigint)
"""

# A queue that has just grown has the statistics of an empty one, by which the planner prefers a sort of all rows to
# reading them from the index in order. Each setting is sent in one message with the statement.
_WITHOUT_SORT = "SET LOCAL enable_sort = off;"
_WITH_SORT = "SET LOCAL enable_sort TO DEFAULT;"

# Finds the heads by the index, from member to member, and locks the heads that no other worker has locked. A head that
# another worker has removed, postponed or marked as dead since this statement began is seen so when the row is locked,
# and is left out. The locking query compares all columns of both indexes, so that the planner can use either.
_CLAIM_HEADS = f"""{_WITHOUT_SORT}
WITH RECURSIVE heads AS (
    (
        SELECT member_id, place, loyalty_event_id FROM queued_events
        WHERE organization_id = %(organization_id)s AND dead_at IS NULL AND member_id > %(after)s
        ORDER BY member_id, place LIMIT 1
    )
    UNION ALL
    SELECT n.member_id, n.place, n.loyalty_event_id FROM heads h CROSS JOIN LATERAL (
        SELECT q.member_id, q.place, q.loyalty_event_id FROM queued_events q
        WHERE q.organization_id = %(organization_id)s AND q.dead_at IS NULL AND q.member_id > h.member_id
        ORDER BY q.member_id, q.place LIMIT 1
    ) n
)
SELECT c.member_id FROM heads h CROSS JOIN LATERAL (
    SELECT q.member_id FROM queued_events q
    WHERE q.organization_id = %(organization_id)s AND q.member_id = h.member_id AND q.place = h.place
        AND q.loyalty_event_id = h.loyalty_event_id AND q.dead_at IS NULL
        AND (q.attempts = 0 OR q.next_attempt_at <= now() OR NOT %(waits_for_retry)s)
    FOR NO KEY UPDATE SKIP LOCKED
) c
LIMIT %(limit)s
"""

_CLAIM_HEAD = """
SELECT q.loyalty_event_id FROM queued_events q
WHERE q.organization_id = %(organization_id)s AND q.member_id = %(member_id)s AND q.dead_at IS NULL
    AND (q.attempts = 0 OR q.next_attempt_at <= now() OR NOT %(waits_for_retry)s) AND q.loyalty_event_id = (
        SELECT loyalty_event_id FROM queued_events
        WHERE organization_id = %(organization_id)s AND member_id = %(member_id)s AND dead_at IS NULL
        ORDER BY place LIMIT 1
    )
FOR NO KEY UPDATE SKIP LOCKED
"""

# Events are left out after `max_bytes` of payloads; the first event is always read.
_LINES = f"""{_WITH_SORT}
SELECT {_EVENT_COLUMNS}, e.attempts
FROM (
    SELECT e.*, l.place, l.attempts, sum(octet_length(e.payload::text)) OVER (
        ORDER BY l.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS bytes_before
    FROM unnest(%(member_ids)s::bigint[]) AS m(member_id)
    CROSS JOIN LATERAL (
        SELECT q.loyalty_event_id, q.place, q.attempts FROM queued_events q
        WHERE q.organization_id = %(organization_id)s AND q.member_id = m.member_id AND q.dead_at IS NULL
        ORDER BY q.place LIMIT %(limit)s
    ) l
    JOIN events e ON e.organization_id = %(organization_id)s AND e.loyalty_event_id = l.loyalty_event_id
) e
WHERE coalesce(e.bytes_before, 0) < %(max_bytes)s
ORDER BY e.place
"""

_REMOVE = "DELETE FROM queued_events WHERE organization_id = %s AND loyalty_event_id = ANY(%s)"

# Only if the number of attempts is unchanged, so that a failure is not counted if another worker has tried the event.
_NOTE_FAILURE = """
UPDATE queued_events SET attempts = attempts + 1, next_attempt_at = now() + coalesce(%(wait)s, interval '0'),
    dead_at = CASE WHEN %(wait)s::interval IS NULL THEN now() END
WHERE organization_id = %(organization_id)s AND member_id = %(member_id)s AND loyalty_event_id = %(loyalty_event_id)s
    AND attempts = %(attempts)s AND dead_at IS NULL
"""

_REQUEUE = """
UPDATE queued_events SET attempts = 0, dead_at = NULL, next_attempt_at = now(), queued_at = now(), place = %(place)s
WHERE organization_id = %(organization_id)s AND loyalty_event_id = %(loyalty_event_id)s AND dead_at IS NOT NULL
"""

_FIGURES = """
SELECT count(*) FILTER (WHERE dead_at IS NULL),
    greatest(extract(epoch FROM now() - min(queued_at) FILTER (WHERE dead_at IS NULL)), 0),
    count(*) FILTER (WHERE dead_at IS NULL AND attempts > 0),
    count(*) FILTER (WHERE dead_at IS NOT NULL)
FROM queued_events
"""


def lock_members(db: Connection, organization_id: int, loyalty_member_ids: Collection[str]) -> list[Member]:
    """Lock the members with these ids, in the order of `persistence.locks`; return them without attributes.

    No other call queues events of these members until the transaction ends.
    """
    return [Member(*row) for row in db.exec_driver_sql(_LOCK_MEMBERS, (organization_id, list(loyalty_member_ids)))]


def add(db: Connection, organization_id: int, rows: Sequence[dict[str, int]]) -> None:
    """Add stored events to the lines of their members, who are locked; a deferred statement.

    A row has the `loyalty_event_id`, the `member_id` and the `place` of the event in the line.
    """
    defer(db, _ADD, {"organization_id": organization_id, "rows": as_json(rows)})


def find_waiting_organizations(db: Connection) -> list[int]:
    """The organizations with waiting events."""
    return organizations.find_ids_with_rows(db, "queued_events", "w.dead_at IS NULL")


def has_waiting(db: Connection, organization_id: int) -> bool:
    """True if the organization has waiting events, whether they are due or not."""
    return has_row(db, queued_events.c.organization_id == organization_id, queued_events.c.dead_at.is_(None))


def claim_members(
    db: Connection, organization_id: int, after: int, limit: int, *, waits_for_retry: bool = True
) -> list[int]:
    """Claim at most `limit` lines with a due and unclaimed head, of members with an id greater than `after`.

    Returns the ids of these members. Unless `waits_for_retry`, heads that wait for their next attempt are due as well.
    """
    parameters = {
        "organization_id": organization_id,
        "after": after,
        "limit": limit,
        "waits_for_retry": waits_for_retry,
    }
    return list(db.exec_driver_sql(_CLAIM_HEADS, parameters).scalars())


def claim_head(db: Connection, organization_id: int, member_id: int, *, waits_for_retry: bool = True) -> int | None:
    """Claim the line of one member; returns the id of the event that is its head.

    None if the head is not due, if another worker has claimed it, or if the line is empty. Unless
    `waits_for_retry`, a head that waits for its next attempt is due as well.
    """
    parameters = {"organization_id": organization_id, "member_id": member_id, "waits_for_retry": waits_for_retry}
    return db.exec_driver_sql(_CLAIM_HEAD, parameters).scalar()


def find_lines(db: Connection, organization_id: int, member_ids: Collection[int], limit: int) -> list[QueuedEvent]:
    """The first events of members whose lines are claimed, in the order of the lines.

    At most `limit` of each line, and no further events after `MAX_BYTES` of payloads.
    """
    parameters = {
        "organization_id": organization_id,
        "member_ids": list(member_ids),
        "limit": limit,
        "max_bytes": MAX_BYTES,
    }
    rows = db.exec_driver_sql(_LINES, parameters)
    return [QueuedEvent(LoyaltyEvent(*event), attempts) for *event, attempts in rows]


def remove(db: Connection, organization_id: int, event_ids: Collection[int]) -> None:
    """Remove processed events from their members' lines; a deferred statement."""
    defer(db, _REMOVE, (organization_id, list(event_ids)))


def record_failure(db: Connection, organization_id: int, queued: QueuedEvent, wait: timedelta | None) -> bool:
    """Postpone an event by `wait`; if `wait` is None, put it on the dead-letter list.

    Returns False if another attempt has been made since.
    """
    parameters = {
        "organization_id": organization_id,
        "loyalty_event_id": queued.event.loyalty_event_id,
        "member_id": queued.event.member_id,
        "attempts": queued.attempts,
        "wait": wait,
    }
    return db.exec_driver_sql(_NOTE_FAILURE, parameters).rowcount == 1


def requeue(db: Connection, event: LoyaltyEvent) -> bool:
    """Put a dead event at the end of its member's line, with all attempts again; returns False if it is not dead."""
    db.execute(select(members.c.member_id).where(is_same(members, event, "member_id")).with_for_update(key_share=True))
    # Places are ids of events, so that this one is behind all others.
    [place] = reserve_ids(db, events=1)["events"]
    parameters = {
        "organization_id": event.organization_id,
        "loyalty_event_id": event.loyalty_event_id,
        "place": place,
    }
    return db.exec_driver_sql(_REQUEUE, parameters).rowcount == 1


def find_page_of_dead_letters(db: Connection, organization_id: int, query: Mapping[str, Any]) -> Paged[DeadLetter]:
    """A page of the dead-letter list."""
    queued_with_events = queued_events.join(events, is_same(events, queued_events, "loyalty_event_id"))
    conditions = [
        queued_events.c.organization_id == organization_id,
        queued_events.c.dead_at.is_not(None),
        *conditions_of({"eventType": equals(events.c.event_type)}, query),
    ]
    queue_columns = (queued_events.c.attempts, queued_events.c.queued_at, queued_events.c.dead_at)
    page = Page.of(query)
    sorting = sorting_of(page.order, DEAD_LETTER_ORDER, events.c.loyalty_event_id)
    return paged_columns(
        db, _dead_letter, (*EVENTS.columns, *queue_columns), queued_with_events, conditions, page, sorting
    )


def _dead_letter(*row: Any) -> DeadLetter:
    """The dead letter of a row of `find_page_of_dead_letters`."""
    *event_columns, attempts, queued_at, dead_at = row
    return DeadLetter(LoyaltyEvent(*event_columns), attempts, queued_at, dead_at)


def figures(db: Connection) -> QueueFigures:
    """Figures of waiting and dead events in all organizations."""
    waiting, oldest, retrying, dead = db.execute(text(_FIGURES)).one()
    return QueueFigures(waiting, float(oldest or 0), retrying, dead)
