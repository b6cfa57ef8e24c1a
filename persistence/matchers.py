"""Item matchers."""

from typing import Any

from sqlalchemy import Connection, select

from domain.matchers import Matcher
from persistence.paging import Page, Paged, paged
from persistence.rows import add, change, columns_of, record, records, with_external_key
from persistence.tables.matchers import matchers as table

ORDER_COLUMNS = {
    "matcherId": table.c.matcher_id,
    "name": table.c.name,
    "type": table.c.type,
    "createdAt": table.c.created_at,
    "updatedAt": table.c.updated_at,
}

_COLUMNS = columns_of(table, Matcher)


def find(db: Connection, organization_id: int, matcher_id: int) -> Matcher | None:
    """The matcher with this id."""
    return _find(db, table.c.organization_id == organization_id, table.c.matcher_id == matcher_id)


def find_by_key(db: Connection, organization_id: int, matcher_key: str) -> Matcher | None:
    """The matcher with this key."""
    return _find(db, table.c.organization_id == organization_id, table.c.matcher_key == matcher_key)


def _find(db: Connection, *conditions: Any) -> Matcher | None:
    return record(Matcher, db.execute(select(*_COLUMNS).where(*conditions)).one_or_none())


def find_page(
    db: Connection,
    organization_id: int,
    page: Page,
    *,
    type_: str | None = None,
    matcher_key: str | None = None,
    external_key: str | None = None,
) -> Paged[Matcher]:
    """A page of matchers."""
    conditions = [table.c.organization_id == organization_id, *with_external_key(table, external_key)]
    if type_ is not None:
        conditions.append(table.c.type == type_)
    if matcher_key is not None:
        conditions.append(table.c.matcher_key == matcher_key)
    return paged(db, Matcher, table, conditions, page, table.c.matcher_id, ORDER_COLUMNS)


def find_all(db: Connection, organization_id: int) -> list[Matcher]:
    """Every matcher of the organization."""
    return records(Matcher, db.execute(select(*_COLUMNS).where(table.c.organization_id == organization_id)))


def add_matcher(db: Connection, organization_id: int, **values: Any) -> Matcher:
    """Insert a matcher."""
    return add(db, table, Matcher, {"organization_id": organization_id, **values})


def change_matcher(db: Connection, matcher: Matcher, /, **values: Any) -> Matcher:
    """Change a matcher."""
    address = {"organization_id": matcher.organization_id, "matcher_id": matcher.matcher_id}
    return change(db, table, Matcher, address, values)
