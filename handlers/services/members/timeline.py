"""The timeline of a member: pages of rows from all sources. Rows about points name the cause of the points."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from domain.members import Member
from domain.timeline.points import (
    BY_COUPON,
    BY_EXPIRY,
    BY_MISSION,
    PointsFact,
    Source,
    source_of_request,
    sources_of_event,
)
from domain.timeline.rows import BADGE, COUPON, COUPON_LOCK, KINDS, POINTS, TimelineRow
from persistence import timeline, timeline_facts
from persistence.timeline import SOURCES, Head

# The position in each source: all further rows have smaller ids. 0 means that there are no further rows.
Positions = Mapping[str, int]

# The entity of the audit log for each kind of facts that requests cause.
_ENTITIES = {
    POINTS: "ledger-transaction",
    COUPON: "coupon-usage",
    COUPON_LOCK: "coupon-lock",
    BADGE: "badge-tracking",
}
_RANKS = {kind: -rank for rank, kind in enumerate(KINDS)}


@dataclass(frozen=True, slots=True)
class TimelineQuery:
    """The requested rows: at most `limit`, of these kinds (empty for all), recorded in this time."""

    limit: int
    kinds: Collection[str] = ()
    created_from: datetime | None = None
    created_to: datetime | None = None
    positions: Positions | None = None


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """Rows, newest first, and the positions at which the next page begins; None on the last page."""

    limit: int
    rows: list[TimelineRow]
    next: Positions | None


def timeline_of(db: Connection, member: Member, query: TimelineQuery) -> TimelinePage:
    """A page of the member's timeline; the number of statements does not depend on the rows.

    Pages after the first one contain no rows that were added after the first one was read.
    """
    source_names = [name for name, source in SOURCES.items() if not query.kinds or source.kind in query.kinds]
    # None means the position before the newest row. Sources without further rows are not read.
    positions = {name: None if query.positions is None else query.positions.get(name, 0) for name in source_names}
    positions = {name: position for name, position in positions.items() if position != 0}
    heads = timeline.find_heads(db, member, positions, query.limit + 1, query.created_from, query.created_to)
    row_ids, positions_after = _newest(heads, query.limit)
    rows = _rows(db, member, row_ids)
    next_positions = {name: position for name, position in positions_after.items() if position}
    return TimelinePage(query.limit, rows, next_positions or None)


def _newest(heads: Mapping[str, Sequence[Head]], limit: int) -> tuple[list[tuple[str, int]], dict[str, int]]:
    """The newest rows of all sources, as (source, id), and the position in each source at which the next page begins.

    The further rows of a source have ids below its position; 0 means that it has no further rows.
    """
    row_ids: list[tuple[str, int]] = []
    indexes = dict.fromkeys(heads, 0)
    while len(row_ids) < limit:
        names = [name for name, index in indexes.items() if index < len(heads[name])]
        if not names:
            break
        newest_source = max(names, key=lambda name: _sort_key(name, heads[name][indexes[name]]))
        row_ids.append((newest_source, heads[newest_source][indexes[newest_source]].id))
        indexes[newest_source] += 1
    positions = {}
    for name, index in indexes.items():
        further_heads = heads[name][index:]
        positions[name] = further_heads[0].id + 1 if further_heads else 0
    return row_ids, positions


def _sort_key(name: str, head: Head) -> tuple[datetime, int, int]:
    """The key by which rows are sorted: rows of one moment by event, with the event before the rows that it caused."""
    return head.at, head.event_id or 0, _RANKS[SOURCES[name].kind]


def _rows(db: Connection, member: Member, row_ids: Sequence[tuple[str, int]]) -> list[TimelineRow]:
    """The rows with these (source, id), in the same order; one query for each kind of facts."""
    ids_by_facts: dict[str, list[int]] = {}
    for name, row_id in row_ids:
        ids_by_facts.setdefault(SOURCES[name].facts_name, []).append(row_id)
    facts = {
        facts_name: timeline_facts.find_facts(db, member, facts_name, ids) for facts_name, ids in ids_by_facts.items()
    }
    points = facts.get(POINTS, {})
    sources = _sources(db, member.organization_id, points)
    actors = _actors(db, member.organization_id, facts)
    rows = []
    for name, row_id in row_ids:
        facts_name = SOURCES[name].facts_name
        fact = facts[facts_name][row_id]
        actor = actors.get((_ENTITIES.get(facts_name, ""), str(row_id)))
        if facts_name == POINTS:
            rows.append(fact.row(sources[row_id], actor))
        else:
            rows.append(fact.row(actor) if facts_name in _ENTITIES else fact.row())
    return rows


def _actors(
    db: Connection, organization_id: int, facts: Mapping[str, Mapping[int, PointsFact]]
) -> dict[tuple[str, str], str]:
    """The callers whose requests caused the facts, by (entity, row id), without facts that an event caused."""
    entities = [
        (entity, str(row_id))
        for kind, entity in _ENTITIES.items()
        for row_id, fact in facts.get(kind, {}).items()
        if fact.loyalty_event_id is None
    ]
    return timeline_facts.find_actors(db, organization_id, entities) if entities else {}


def _sources(db: Connection, organization_id: int, points: Mapping[int, PointsFact]) -> dict[int, Source]:
    """The cause of each transaction, by its id."""
    sources = {row_id: source_of_request(fact) for row_id, fact in points.items()}
    events = {fact.loyalty_event_id for fact in points.values() if fact.loyalty_event_id is not None}
    if events:
        results = timeline_facts.find_results_of_events(db, organization_id, events)
        transactions: dict[int, list[tuple[int, str]]] = {}
        for row_id, event_id, key in timeline_facts.find_transactions_of_events(db, organization_id, events):
            transactions.setdefault(event_id, []).append((row_id, key))
        for event_id, event_transactions in transactions.items():
            effects, missions = results[event_id]
            sources_of_transactions = sources_of_event(event_transactions, effects, missions)
            sources |= {row_id: source for row_id, source in sources_of_transactions.items() if row_id in points}
        # Expiries that an event has posted were due before it: time has caused them.
        sources |= {row_id: Source(BY_EXPIRY) for row_id, fact in points.items() if fact.is_expiry}
    return _name_sources(db, organization_id, points, sources)


def _name_sources(
    db: Connection, organization_id: int, points: Mapping[int, PointsFact], sources: Mapping[int, Source]
) -> dict[int, Source]:
    """The sources with the names of missions and coupon books added."""
    usage_keys = {
        row_id: points[row_id].system_unique_key.removeprefix("coupon-usage-")
        for row_id, source in sources.items()
        if source.kind == BY_COUPON
    }
    # The sources still have the keys of missions as names; the names replace the keys below.
    mission_keys = {
        row_id: source.name for row_id, source in sources.items() if source.kind == BY_MISSION and source.name
    }
    book_names = (
        timeline_facts.find_book_names_of_usages(db, organization_id, set(usage_keys.values())) if usage_keys else {}
    )
    mission_names = (
        timeline_facts.find_names_of_missions(db, organization_id, set(mission_keys.values())) if mission_keys else {}
    )
    renamed_sources = {row_id: replace(sources[row_id], name=book_names.get(key)) for row_id, key in usage_keys.items()}
    renamed_sources |= {
        row_id: replace(sources[row_id], name=mission_names.get(key)) for row_id, key in mission_keys.items()
    }
    return {**sources, **renamed_sources}
