"""Portals of organizations."""

from typing import Any

from sqlalchemy import Connection, select

from domain.portals import Portal
from persistence.paging import Page, Paged, paged
from persistence.rows import add, columns_of, record
from persistence.tables.portals import portals as table

ORDER_COLUMNS = {
    "portalId": table.c.portal_id,
    "name": table.c.name,
    "active": table.c.active,
    "createdAt": table.c.created_at,
    "updatedAt": table.c.updated_at,
}

_COLUMNS = columns_of(table, Portal)


def find(db: Connection, organization_id: int, portal_id: int) -> Portal | None:
    """The portal with this id."""
    conditions = (table.c.organization_id == organization_id, table.c.portal_id == portal_id)
    return record(Portal, db.execute(select(*_COLUMNS).where(*conditions)).one_or_none())


def find_page(db: Connection, organization_id: int, page: Page, *, public_id: str | None = None) -> Paged[Portal]:
    """A page of portals."""
    conditions = [table.c.organization_id == organization_id]
    if public_id is not None:
        conditions.append(table.c.public_id == public_id)
    return paged(db, Portal, table, conditions, page, table.c.portal_id, ORDER_COLUMNS)


def add_portal(db: Connection, organization_id: int, **values: Any) -> Portal:
    """Insert a portal."""
    return add(db, table, Portal, {"organization_id": organization_id, **values})
