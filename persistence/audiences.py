"""Audiences, and the members of those that are defined by a list."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, or_, select

from domain.audiences import NULL_MATCHER, Audience
from domain.scalars import is_key
from persistence.connections import Prepared, query
from persistence.paging import Page, Paged, paged
from persistence.rows import add, change, columns_of, record, records, with_external_key
from persistence.tables.audiences import audiences as table

ORDER_COLUMNS = {
    "audienceId": table.c.audience_id,
    "name": table.c.name,
    "active": table.c.active,
    "matcherType": table.c.matcher_type,
    "version": table.c.version,
    "memberCount": table.c.member_count,
    "refreshedAt": table.c.refreshed_at,
    "expiresAt": table.c.expires_at,
    "createdAt": table.c.created_at,
    "updatedAt": table.c.updated_at,
}

_COLUMNS = columns_of(table, Audience)

_ADD_MEMBERS = """
INSERT INTO audience_members (organization_id, member_id, audience_id, created_at)
SELECT %s, member_id, %s, %s FROM unnest(%s::bigint[]) AS member_id
ON CONFLICT DO NOTHING RETURNING member_id
"""

_REMOVE_MEMBERS = """
DELETE FROM audience_members WHERE organization_id = %s AND audience_id = %s AND member_id = ANY(%s::bigint[])
"""

_KNOWN_MEMBERS = "SELECT member_id FROM members WHERE organization_id = %s AND member_id = ANY(%s::bigint[])"

_LISTS = Prepared(
    "SELECT member_id, audience_id FROM audience_members WHERE organization_id = %s AND member_id = ANY(%s::bigint[])"
)


def find(db: Connection, organization_id: int, audience_id: int) -> Audience | None:
    """The audience with this id."""
    return record(Audience, db.execute(_one(organization_id, audience_id)).one_or_none())


def lock(db: Connection, audience: Audience) -> Audience:
    """The audience as it is now, locked for this transaction to change it or its list."""
    statement = _one(audience.organization_id, audience.audience_id).with_for_update(key_share=True)
    return Audience(*db.execute(statement).one())


def _one(organization_id: int, audience_id: int) -> Any:
    return select(*_COLUMNS).where(table.c.organization_id == organization_id, table.c.audience_id == audience_id)


def find_page(
    db: Connection,
    organization_id: int,
    page: Page,
    *,
    matcher_type: str | None = None,
    active: bool | None = None,
    search: str | None = None,
    audience_keys: Collection[str] | None = None,
    external_key: str | None = None,
) -> Paged[Audience]:
    """A page of audiences; `search` is a part of the name or the description, in any case."""
    conditions = [table.c.organization_id == organization_id, *with_external_key(table, external_key)]
    if matcher_type is not None:
        conditions.append(table.c.matcher_type == matcher_type)
    if active is not None:
        conditions.append(table.c.active == active)
    if search is not None:
        conditions.append(
            or_(table.c.name.icontains(search, autoescape=True), table.c.description.icontains(search, autoescape=True))
        )
    if audience_keys is not None:
        conditions.append(table.c.audience_key.in_(list(audience_keys)))
    return paged(db, Audience, table, conditions, page, table.c.audience_id, ORDER_COLUMNS)


def find_matching(db: Connection, organization_id: int) -> list[Audience]:
    """The active audiences that may match members, by id."""
    rows = db.execute(
        select(*_COLUMNS)
        .where(table.c.organization_id == organization_id, table.c.active, table.c.matcher_type != NULL_MATCHER)
        .order_by(table.c.audience_id)
    )
    return records(Audience, rows)


def find_all_named(db: Connection, organization_id: int, names: Collection[str]) -> list[Audience]:
    """The audiences with these keys or names, which several may have, by id."""
    keys = [name.lower() for name in names if is_key(name.lower())]
    named = or_(table.c.audience_key.in_(keys), table.c.name.in_(list(names)))
    rows = db.execute(select(*_COLUMNS).where(table.c.organization_id == organization_id, named))
    return sorted(records(Audience, rows), key=lambda audience: audience.audience_id)


def names_by_key(db: Connection, organization_id: int) -> dict[str, str]:
    """The names of all audiences, by their keys, active or not."""
    statement = select(table.c.audience_key, table.c.name).where(table.c.organization_id == organization_id)
    return {row.audience_key: row.name for row in db.execute(statement.order_by(table.c.name))}


def known_keys(db: Connection, organization_id: int, keys: Collection[str]) -> set[str]:
    """The given keys that belong to an audience, active or not."""
    rows = db.execute(
        select(table.c.audience_key).where(
            table.c.organization_id == organization_id, table.c.audience_key.in_(list(keys))
        )
    )
    return {row[0] for row in rows}


def lists_of(db: Connection, organization_id: int, member_ids: Collection[int]) -> dict[int, set[int]]:
    """The ids of the audiences that list each of the members, by member id; one statement for all."""
    lists: dict[int, set[int]] = {}
    for member_id, audience_id in query(db, _LISTS, (organization_id, list(member_ids))):
        lists.setdefault(member_id, set()).add(audience_id)
    return lists


def add_audience(db: Connection, organization_id: int, **values: Any) -> Audience:
    """Insert an audience."""
    return add(db, table, Audience, {"organization_id": organization_id, **values})


def change_audience(db: Connection, audience: Audience, /, **values: Any) -> Audience:
    """Change an audience, which makes it a version later."""
    address = {"organization_id": audience.organization_id, "audience_id": audience.audience_id}
    return change(db, table, Audience, address, {"version": table.c.version + 1, **values})


def unknown_members(db: Connection, organization_id: int, member_ids: Collection[int]) -> set[int]:
    """The given ids that belong to no member of the organization."""
    rows = query(db, _KNOWN_MEMBERS, (organization_id, list(member_ids)))
    return set(member_ids) - {row[0] for row in rows}


def add_members(db: Connection, audience: Audience, member_ids: Collection[int], now: datetime) -> int:
    """Add members to the audience's list; returns how many were not on it."""
    values = (audience.organization_id, audience.audience_id, now, list(member_ids))
    return len(query(db, _ADD_MEMBERS, values))


def remove_members(db: Connection, audience: Audience, member_ids: Collection[int]) -> int:
    """Remove members from the audience's list; returns how many were on it."""
    values = (audience.organization_id, audience.audience_id, list(member_ids))
    return db.exec_driver_sql(_REMOVE_MEMBERS, values).rowcount
