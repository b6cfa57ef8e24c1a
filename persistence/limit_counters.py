"""Counters of the limits of campaigns: queries that lock them, read them without locks, and store them.

`domain.campaigns.counters` explains the parts of a split counter, their `quota`, and `until`.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import Connection

from domain.campaigns.counters import Ceiling, CounterKey, CounterRow, LockedCounter
from domain.retries import StartOver
from persistence.connections import defer, fetch_rows
from persistence.prepared_statements import Prepared
from persistence.rows import as_json, fields_of
from persistence.transactions import is_repeated

_KEY = "campaign_id, member_id, ledger_account_id, type, period, period_start, shared_key, location"
_TYPES = """campaign_id bigint, member_id bigint, ledger_account_id bigint, type text, period text, period_start date,
    shared_key text, location text"""
_OF_C = ", ".join(f"c.{name}" for name in _KEY.split(", "))
_OF_X = ", ".join(f"x.{name}" for name in _KEY.split(", "))
_WIDTH = len(_KEY.split(", "))

_READ = Prepared(f"""
SELECT {_OF_C}, sum(c.used) FROM campaign_limit_counters c
JOIN jsonb_to_recordset(%s::jsonb) AS x({_TYPES}) USING ({_KEY})
WHERE c.organization_id = %s
GROUP BY {_OF_C}
""")

_OF_MEMBERS = Prepared(f"""
SELECT {_KEY}, used FROM campaign_limit_counters
WHERE organization_id = %s AND member_id = ANY(%s::bigint[]) AND campaign_id = ANY(%s::bigint[])
    AND period_start = ANY(%s::date[])
""")

# The row of a counter must exist to be locked, so it is inserted with a count of zero first.
_CLAIM = Prepared(f"""
INSERT INTO campaign_limit_counters (organization_id, {_KEY}, used)
SELECT %s, {_OF_X}, 0 FROM jsonb_to_recordset(%s::jsonb) AS x({_TYPES})
ORDER BY {_OF_X}
ON CONFLICT DO NOTHING
""")

# Locks the row of each counter, or one of its parts if it is split. If the row was counted after this statement began,
# the statement has waited for it, which adds one to its `waits`.
_LOCK_ONE = Prepared(f"""
SELECT {_OF_C}, c.used, m.parts, c.part, c.quota, c.until, CASE c.part WHEN 0 THEN c.alerts ELSE m.alerts END,
    c.waits + CAST(coalesce(c.counted_at > statement_timestamp(), false) AS integer), c.parts
FROM jsonb_to_recordset(%s::jsonb) AS x({_TYPES})
JOIN campaign_limit_counters m USING ({_KEY})
JOIN campaign_limit_counters c USING (organization_id, {_KEY})
WHERE m.organization_id = %s AND m.part = 0
    AND c.part = CASE m.parts WHEN 0 THEN 0 ELSE 1 + mod(%s, m.parts) END
ORDER BY c.part > 0, {_OF_C}
FOR NO KEY UPDATE OF c
""")

_LOCK_ROWS = f"""
SELECT {_OF_C}, c.used, c.parts, c.part, c.quota, c.until, c.alerts, c.waits
FROM campaign_limit_counters c JOIN jsonb_to_recordset(%s::jsonb) AS x({_TYPES}) USING ({_KEY})
WHERE c.organization_id = %s AND c.part
"""
# These lock all rows that exist: only a transaction that has locked the first row of a counter adds others.
_LOCK_FIRST = Prepared(f"{_LOCK_ROWS} = 0 ORDER BY {_OF_C} FOR NO KEY UPDATE OF c")
_LOCK_PARTS = Prepared(f"{_LOCK_ROWS} > 0 ORDER BY {_OF_C}, c.part FOR NO KEY UPDATE OF c")

_COUNT = Prepared(f"""
INSERT INTO campaign_limit_counters AS c
    (organization_id, {_KEY}, part, used, parts, quota, until, alerts, waits, counted_at)
SELECT %s, {_OF_X}, x.part, x.used, x.parts, x.quota, x.until, x.alerts, x.waits, clock_timestamp()
FROM jsonb_to_recordset(%s::jsonb) AS x({_TYPES}, part smallint, used numeric, parts smallint, quota numeric,
    until numeric, alerts text[], waits integer)
ORDER BY {_OF_X}, x.part
ON CONFLICT ON CONSTRAINT pk_campaign_limit_counters
    DO UPDATE SET used = c.used + excluded.used, parts = excluded.parts, quota = excluded.quota, until = excluded.until,
        alerts = excluded.alerts, waits = excluded.waits, counted_at = excluded.counted_at
""")

_TOP_LOCATIONS = """
SELECT location, sum(used) AS used FROM campaign_limit_counters
WHERE organization_id = %s AND member_id = 0 AND campaign_id = %s AND type = %s AND period = %s AND period_start = %s
    AND ledger_account_id = %s AND shared_key = %s AND location <> ''
GROUP BY location ORDER BY used DESC, location LIMIT %s
"""


class _LockedRow(NamedTuple):
    """A row of _LOCK_ROWS."""

    key: CounterKey
    used: Decimal
    parts: int
    part: int
    quota: Decimal | None
    until: Decimal | None
    alerts: Sequence[str]
    waits: int

    @classmethod
    def of(cls, row: Sequence[Any]) -> "_LockedRow":
        """The record of a row, whose first columns are the fields of the key."""
        return cls(CounterKey(*row[:_WIDTH]), *row[_WIDTH:])


def read(db: Connection, organization_id: int, keys: Collection[CounterKey]) -> dict[CounterKey, Decimal]:
    """Read the values of counters, without locks; counters of zero may be left out."""
    rows = fetch_rows(db, _READ, (as_json(list(keys)), organization_id)) if keys else []
    return {CounterKey(*fields): amount for *fields, amount in rows}


def find_of_members(
    db: Connection,
    organization_id: int,
    member_ids: Collection[int],
    campaign_ids: Collection[int],
    period_starts: Collection[date],
) -> dict[CounterKey, Decimal]:
    """The values of the counters of these members, in these campaigns and in periods that start on these days."""
    values = (organization_id, list(member_ids), list(campaign_ids), list(period_starts))
    return {CounterKey(*fields): amount for *fields, amount in fetch_rows(db, _OF_MEMBERS, values)}


def lock(
    db: Connection, organization_id: int, ceilings: Mapping[CounterKey, Ceiling | None], as_whole: bool
) -> dict[CounterKey, LockedCounter]:
    """Lock counters that all members share, in the order of `persistence.locks`; return them by key.

    `ceilings` has the ceiling of each counter by the current limits; None for a counter that is only reduced. Of a
    split counter only one part is locked, unless `as_whole` is true or the work is retried. Raises StartOver if another
    transaction has split or joined a counter meanwhile, or if a part needs a quota for the current ceiling.
    """
    keys = as_json(list(ceilings))
    defer(db, _CLAIM, (organization_id, keys))
    if as_whole or is_repeated():
        return _lock_whole(db, organization_id, keys)
    locked: dict[CounterKey, LockedCounter] = {}
    for row in fetch_rows(db, _LOCK_ONE, (keys, organization_id, random.randrange(2**15))):
        key = CounterKey(*row[:_WIDTH])
        amount, parts, part, quota, until, alerts, waits, own_parts = row[_WIDTH:]
        ceiling = ceilings[key]
        # A counter that was not split when the statement began may have been split before it was locked (`own_parts`).
        # A part may count only if its quota is for the next amount of the current ceiling.
        if own_parts or (part and (quota is None or ceiling is None or until != ceiling.next_amount(alerts))):
            raise StartOver(f"The counter {key} was split by another transaction.")
        locked[key] = LockedCounter({part: amount}, parts, part, quota, until, tuple(alerts), waits)
    return locked


def _lock_whole(db: Connection, organization_id: int, keys: str) -> dict[CounterKey, LockedCounter]:
    """Lock all rows of the counters with these keys, which are JSON text."""
    first_rows = [_LockedRow.of(row) for row in fetch_rows(db, _LOCK_FIRST, (keys, organization_id))]
    part_rows = []
    if any(row.parts for row in first_rows):
        part_rows = [_LockedRow.of(row) for row in fetch_rows(db, _LOCK_PARTS, (keys, organization_id))]
    amounts: dict[CounterKey, dict[int, Decimal]] = {}
    for row in (*first_rows, *part_rows):
        amounts.setdefault(row.key, {})[row.part] = row.used
    return {
        row.key: LockedCounter(amounts[row.key], row.parts, alerts=tuple(row.alerts), waits=row.waits)
        for row in first_rows
    }


def store(db: Connection, organization_id: int, rows: Sequence[CounterRow]) -> None:
    """Add the used amounts of the rows to the counters, and store their other columns; a deferred statement."""
    if rows:
        defer(db, _COUNT, (organization_id, as_json([_as_row(row) for row in rows])))


def _as_row(row: CounterRow) -> dict[str, Any]:
    values = row._asdict()
    key = values.pop("key")
    return {name: getattr(key, name) for name in fields_of(CounterKey)} | values


def find_most_used(
    db: Connection, organization_id: int, key: CounterKey, limit: int
) -> list[tuple[CounterKey, Decimal]]:
    """The counters of the locations that have used the most of a limit, most used first, each with its used amount.

    Returns at most `limit` counters; `key` is the counter of any of the locations.
    """
    values = (
        organization_id,
        key.campaign_id,
        key.type,
        key.period,
        key.period_start,
        key.ledger_account_id,
        key.shared_key,
        limit,
    )
    return [(replace(key, location=location), total) for location, total in fetch_rows(db, _TOP_LOCATIONS, values)]
