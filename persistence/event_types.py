"""The custom event types of organizations."""

from typing import Any

from sqlalchemy import Connection, select

from domain.event_types import CustomEventType
from domain.problems import NameTaken
from persistence.paging import Page, Paged, paged
from persistence.rows import add, change, columns_of, record, records, with_external_key
from persistence.tables.events import custom_event_types as table

ORDER_COLUMNS = {
    "apiCode": table.c.api_code,
    "name": table.c.name,
    "schemaType": table.c.schema_type,
    "active": table.c.active,
    "createdAt": table.c.created_at,
    "updatedAt": table.c.updated_at,
}

_COLUMNS = columns_of(table, CustomEventType)


def find(db: Connection, organization_id: int, api_code: str) -> CustomEventType | None:
    """The custom event type with this code."""
    row = db.execute(
        select(*_COLUMNS).where(table.c.organization_id == organization_id, table.c.api_code == api_code)
    ).one_or_none()
    return record(CustomEventType, row)


def find_page(
    db: Connection, organization_id: int, page: Page, *, external_key: str | None = None
) -> Paged[CustomEventType]:
    """A page of the organization's custom event types."""
    conditions = [table.c.organization_id == organization_id, *with_external_key(table, external_key)]
    return paged(db, CustomEventType, table, conditions, page, table.c.api_code, ORDER_COLUMNS)


def active(db: Connection, organization_id: int) -> list[CustomEventType]:
    """The active custom event types, by code."""
    rows = db.execute(
        select(*_COLUMNS).where(table.c.organization_id == organization_id, table.c.active).order_by(table.c.api_code)
    )
    return records(CustomEventType, rows.all())


def add_event_type(db: Connection, organization_id: int, **values: Any) -> CustomEventType:
    """Insert a custom event type; a code that exists raises NameTaken."""
    taken = NameTaken(f"A custom event type with the apiCode {values['api_code']} already exists.")
    return add(
        db,
        table,
        CustomEventType,
        {"organization_id": organization_id, **values},
        {"pk_custom_event_types": taken},
    )


def change_event_type(db: Connection, event_type: CustomEventType, **values: Any) -> CustomEventType:
    """Change a custom event type."""
    address = {"organization_id": event_type.organization_id, "api_code": event_type.api_code}
    return change(db, table, CustomEventType, address, values)
