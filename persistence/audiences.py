"""Audiences, and the lists of members that define some of them."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, or_, select

from domain.audiences import NULL_MATCHER, Audience
from domain.scalars import is_key
from persistence.connections import fetch_rows
from persistence.filters import contains, is_any_of
from persistence.prepared_statements import Prepared
from persistence.records import Records
from persistence.tables.campaigns import audiences as table

AUDIENCES = Records(
    table,
    Audience,
    equal=("matcherType", "active"),
    filters={
        "search": contains(table.c.name, table.c.description),
        "audienceKeys": is_any_of(table.c.audience_key),
    },
)

_ADD_MEMBERS = """
INSERT INTO audience_members (organization_id, member_id, audience_id, created_at)
SELECT %s, member_id, %s, %s FROM unnest(%s::bigint[]) AS member_id
ON CONFLICT DO NOTHING RETURNING member_id
"""

_REMOVE_MEMBERS = """
DELETE FROM audience_members WHERE organization_id = %s AND audience_id = %s AND member_id = ANY(%s::bigint[])
"""

_LISTS = Prepared(
    "SELECT member_id, audience_id FROM audience_members WHERE organization_id = %s AND member_id = ANY(%s::bigint[])"
)


def find_matching(db: Connection, organization_id: int) -> list[Audience]:
    """The active audiences that may match members, ordered by id."""
    active_audiences = AUDIENCES.find_all(db, organization_id, active=True)
    return [audience for audience in active_audiences if audience.matcher_type != NULL_MATCHER]


def find_all_named(db: Connection, organization_id: int, names: Collection[str]) -> list[Audience]:
    """The audiences whose key or name is one of `names`, ordered by id; several audiences may share a name."""
    keys = [name.lower() for name in names if is_key(name.lower())]
    is_named = or_(table.c.audience_key.in_(keys), table.c.name.in_(list(names)))
    return AUDIENCES.find_where(db, organization_id, is_named, order=[AUDIENCES.id])


def find_names_by_key(db: Connection, organization_id: int) -> dict[str, str]:
    """The names of all audiences, active or not, by audience key, in the order of the names."""
    statement = select(table.c.audience_key, table.c.name).where(table.c.organization_id == organization_id)
    return {row.audience_key: row.name for row in db.execute(statement.order_by(table.c.name))}


def find_lists_of_members(db: Connection, organization_id: int, member_ids: Collection[int]) -> dict[int, set[int]]:
    """The ids of the audiences whose lists contain a member, by member id; members on no list are left out."""
    lists: dict[int, set[int]] = {}
    for member_id, audience_id in fetch_rows(db, _LISTS, (organization_id, list(member_ids))):
        lists.setdefault(member_id, set()).add(audience_id)
    return lists


def store_audience(db: Connection, audience: Audience, values: Mapping[str, Any], now: datetime) -> Audience:
    """Store new values of an audience, and raise its version."""
    return AUDIENCES.store(db, audience, {"version": table.c.version + 1, **values}, now)


def add_members(db: Connection, audience: Audience, member_ids: Collection[int], now: datetime) -> int:
    """Add members to the audience's list; returns how many were not on it."""
    values = (audience.organization_id, audience.audience_id, now, list(member_ids))
    return len(fetch_rows(db, _ADD_MEMBERS, values))


def remove_members(db: Connection, audience: Audience, member_ids: Collection[int]) -> int:
    """Remove members from the audience's list; returns how many were on it."""
    values = (audience.organization_id, audience.audience_id, list(member_ids))
    return db.exec_driver_sql(_REMOVE_MEMBERS, values).rowcount
