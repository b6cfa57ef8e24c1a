"""The timeline of a member: rows of several tables, each read along its own index, newest first.

Nothing is stored for it. A source is a set of rows of one member with growing ids: a page has the newest of the next
rows of all sources, and a cursor has a position in each source. The content of the rows is in `timeline_facts`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, TextClause, text

from domain.members import Member
from domain.timeline.rows import (
    BADGE,
    COUPON,
    COUPON_LOCK,
    DERIVED_TYPES,
    EVENT,
    MESSAGE,
    MISSION,
    POINTS,
    POINTS_RELEASE,
    PROFILE,
    REFERRAL,
    TIER,
)

_NO_EVENT = "CAST(NULL AS bigint)"


@dataclass(frozen=True, slots=True)
class _Source:
    """The rows of one kind: `rows` is FROM and WHERE; `id`, `at` and `event_id` are expressions on its columns."""

    kind: str
    rows: str
    id: str
    at: str
    event_id: str = _NO_EVENT
    # A cheaper FROM and WHERE for a search that only needs the first row with an id: it may return rows repeatedly. If
    # it is empty, `rows` is used.
    search_rows: str = ""
    # The name of the facts of the rows, if it is not the kind.
    other_facts_name: str = ""

    @property
    def facts_name(self) -> str:
        """The name of the kind of facts that describe the rows, for `find_facts`."""
        return self.other_facts_name or self.kind


def _of_member(
    kind: str,
    table: str,
    id_column: str,
    *,
    member: str = "member_id",
    has_event: bool = True,
    other_facts_name: str = "",
) -> _Source:
    """The rows of a table about the member, as entries of a `kind`; `member` is the column with the member's id."""
    rows = f"FROM {table} x WHERE x.organization_id = :o AND x.{member} = :m"
    event_id = "x.loyalty_event_id" if has_event else _NO_EVENT
    return _Source(kind, rows, f"x.{id_column}", "x.created_at", event_id, other_facts_name=other_facts_name)


def _events(kind: str, condition: str, cause: str = "cause_loyalty_event_id", other_facts_name: str = "") -> _Source:
    """The events of the member that meet a condition; `cause` is the column with the event that caused the row."""
    rows = f"FROM events e WHERE e.organization_id = :o AND e.member_id = :m AND {condition}"
    return _Source(
        kind=kind,
        rows=rows,
        id="e.loyalty_event_id",
        at="e.created_at",
        event_id=f"e.{cause}",
        other_facts_name=other_facts_name,
    )


_ENTRIES = (
    "FROM ledger_entries n JOIN ledger_transactions t USING (organization_id, ledger_transaction_id)"
    " WHERE n.organization_id = :o AND n.wallet_id = :w"
)

SOURCES: Mapping[str, _Source] = {
    "events": _events(EVENT, "NOT (e.event_type = ANY(:derived) AND e.reason IS NOT NULL)", cause="loyalty_event_id"),
    # A transaction has several entries of a wallet if it was captured, or went into debt: only the first one is a row.
    "ledgerTransactions": _Source(
        kind=POINTS,
        rows=f"{_ENTRIES} AND n.entry_index = (SELECT min(f.entry_index) FROM ledger_entries f"
        " WHERE f.organization_id = :o AND f.ledger_transaction_id = n.ledger_transaction_id AND f.wallet_id = :w)",
        id="n.ledger_transaction_id",
        at="t.created_at",
        event_id="t.loyalty_event_id",
        search_rows=_ENTRIES,
    ),
    "pointsReleases": _events(
        POINTS, "e.event_type = 'points-available' AND e.reason IS NOT NULL", other_facts_name=POINTS_RELEASE
    ),
    "couponUsages": _of_member(COUPON, "coupon_usages", "coupon_usage_id"),
    "couponLocks": _of_member(COUPON, "coupon_locks", "coupon_lock_id", has_event=False, other_facts_name=COUPON_LOCK),
    "badgeTrackings": _of_member(BADGE, "badge_trackings", "badge_tracking_id"),
    "tierEvents": _events(TIER, "e.event_type IN ('member-tier-set', 'member-tier-removed') AND e.reason IS NOT NULL"),
    "missionTrackings": _of_member(MISSION, "mission_trackings", "mission_tracking_id"),
    "referralsMade": _of_member(REFERRAL, "referral_logs", "referral_log_id", member="referrer_member_id"),
    "referralsUsed": _of_member(REFERRAL, "referral_logs", "referral_log_id", member="referred_member_id"),
    "auditEntries": _Source(
        PROFILE,
        "FROM audit_log a WHERE a.organization_id = :o AND a.entity_type = 'member'"
        " AND a.entity_id = CAST(CAST(:m AS bigint) AS text)",
        "a.audit_log_id",
        # Entries are dated by the real time, all other rows by the time of the organization.
        "coalesce(a.test_clock, a.created_at)",
    ),
    "triggerDeliveries": _of_member(MESSAGE, "trigger_deliveries", "trigger_delivery_id", has_event=False),
}


class Head(NamedTuple):
    """A row of a source that may come next: its id, its moment and the id of the event that caused it, if any."""

    id: int
    at: datetime
    event_id: int | None


def find_heads(
    db: Connection,
    member: Member,
    positions: Mapping[str, int | None],
    limit: int,
    created_from: datetime | None,
    created_to: datetime | None,
) -> dict[str, list[Head]]:
    """The next rows of each source in `positions`, newest first, at most `limit` of each, with one statement.

    The next rows of a source have ids below its position; None means the position before the newest row. With
    `created_from` or `created_to`, one more statement finds the range of ids in which these rows are.
    """
    heads: dict[str, list[Head]] = {name: [] for name in positions}
    if not positions:
        return heads
    names = tuple(positions)
    values = {
        "o": member.organization_id,
        "m": member.member_id,
        "w": member.wallet_id,
        "derived": list(DERIVED_TYPES),
        "limit": limit,
        "created_from": created_from,
        "created_to": created_to,
    }
    moments = {}
    if created_from is not None:
        # Rows may get their ids up to _MAX_DELAY after their moments.
        moments[_FROM] = _shift_moment(created_from, -_MAX_DELAY)
    if created_to is not None:
        moments[_TO] = _shift_moment(created_to, _MAX_DELAY)
    first_ids = _find_first_ids(db, names, values, moments) if moments else {}
    for number, name in enumerate(names):
        position = positions[name]
        values[f"low{number}"] = first_ids.get((name, _FROM), 0)
        values[f"high{number}"] = min(
            _ABOVE_ALL if position is None else position, first_ids.get((name, _TO), _ABOVE_ALL)
        )
    statement = _next_rows(names, created_from is not None, created_to is not None)
    for number, *head in db.execute(statement, values):
        heads[names[number]].append(Head(*head))
    return heads


_ABOVE_ALL = 2**63 - 1
_FROM, _TO = "from_moment", "to_moment"


@cache
def _next_rows(names: tuple[str, ...], has_from: bool, has_to: bool) -> TextClause:
    """The query of the next rows of the sources with these names, with or without limits of time."""
    parts = []
    for number, source in enumerate(SOURCES[name] for name in names):
        conditions = [source.rows, f"{source.id} < :high{number}"]
        if has_from:
            conditions += [f"{source.id} >= :low{number}", f"{source.at} >= :created_from"]
        if has_to:
            conditions.append(f"{source.at} < :created_to")
        parts.append(
            f"(SELECT {number} AS source, {source.id} AS id, {source.at} AS at, {source.event_id} AS event_id"
            f" {' AND '.join(conditions)} ORDER BY {source.id} DESC LIMIT :limit)"
        )
    return text(" UNION ALL ".join(parts))


# Ids and moments grow together, but a row has the moment at which its request or job began. The maximum time between
# this moment and the one at which it gets its id: within this time, an older row may have a greater id.
_MAX_DELAY = timedelta(days=1)

# A binary search along the index: rows below `low` are older than the moment, those from `high` on are not.
_SEARCH = """
(WITH RECURSIVE search(low, high) AS (
    SELECT coalesce((SELECT {id} {rows} ORDER BY {id} LIMIT 1), 0),
        coalesce((SELECT {id} {rows} ORDER BY {id} DESC LIMIT 1), 0) + 1
    UNION ALL
    SELECT CASE WHEN p.at < :{moment} THEN p.id + 1 ELSE s.low END,
        CASE WHEN p.at < :{moment} THEN s.high ELSE s.middle END
    FROM (SELECT low, high, (low + high) / 2 AS middle FROM search WHERE low < high) s
    LEFT JOIN LATERAL (
        SELECT {id} AS id, {at} AS at {rows} AND {id} >= s.middle AND {id} < s.high ORDER BY {id} LIMIT 1
    ) p ON true
) SELECT min(high) FROM search)
"""


def _find_first_ids(
    db: Connection, names: tuple[str, ...], parameters: Mapping[str, Any], moments: Mapping[str, datetime]
) -> dict[tuple[str, str], int]:
    """The id of the first row of each source at or after each moment, by the names of the source and of the moment."""
    statement = _searches(names, tuple(moments))
    keys = [(name, moment) for name in names for moment in moments]
    return dict(zip(keys, db.execute(statement, {**parameters, **moments}).one(), strict=True))


@cache
def _searches(names: tuple[str, ...], moments: tuple[str, ...]) -> TextClause:
    """The query of one row with the first id of each source in `names` at or after each moment."""
    searches = []
    for source in (SOURCES[name] for name in names):
        rows = source.search_rows or source.rows
        searches += [_SEARCH.format(id=source.id, rows=rows, at=source.at, moment=moment) for moment in moments]
    return text(f"SELECT {', '.join(searches)}")


def _shift_moment(moment: datetime, duration: timedelta) -> datetime:
    """The moment plus the duration, which may be negative; the unchanged moment if the sum is out of range."""
    try:
        return moment + duration
    except OverflowError:
        return moment
