"""The metadata of the schema and the columns that many tables share.

A column is named exactly as the dataclass field it fills. Every primary key and unique constraint of a tenant's table
starts with `organization_id`, so that the schema can be distributed by organization unchanged.
"""

from typing import Any, Literal

from sqlalchemy import (
    ARRAY,
    DDL,
    BigInteger,
    Column,
    DateTime,
    ForeignKeyConstraint,
    Identity,
    MetaData,
    Numeric,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    event,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def tenant_table(name: str, id_column: str, *items: Any, **options: Any) -> Table:
    """A table of an organization's records with the primary key (organization_id, <id_column>), the id generated."""
    return Table(
        name,
        metadata,
        Column("organization_id", BigInteger, nullable=False),
        Column(id_column, BigInteger, Identity(always=False), nullable=False),
        *items,
        PrimaryKeyConstraint("organization_id", id_column),
        **options,
    )


def belongs_to_organization() -> ForeignKeyConstraint:
    """The foreign key of a record that belongs directly to the organization."""
    return ForeignKeyConstraint(["organization_id"], ["organizations.organization_id"])


def refers_to(table: str, *columns: str, target: tuple[str, ...] | None = None) -> ForeignKeyConstraint:
    """A foreign key inside the organization; `target` names the referred columns if their names differ."""
    return ForeignKeyConstraint(
        ["organization_id", *columns],
        [f"{table}.organization_id", *(f"{table}.{c}" for c in (target or columns))],
    )


def key(name: str) -> Column[Any]:
    """A generated key, a lower-case UUID string on the wire."""
    return Column(name, Uuid(as_uuid=False), nullable=False)


def external_key() -> tuple[Column[Any], UniqueConstraint]:
    """The organization's own key of a record, if it has given it one; no other record of the table has the same."""
    return Column("external_key", Text), UniqueConstraint("organization_id", "external_key")


def instant(name: str, nullable: bool = True, default: str | None = None) -> Column[Any]:
    """A moment, kept in UTC."""
    server_default = text(default) if default is not None else None
    return Column(name, DateTime(timezone=True), nullable=nullable, server_default=server_default)


def created_and_updated() -> tuple[Column[Any], Column[Any]]:
    """The two columns of every record that an API returns."""
    return instant("created_at", nullable=False), instant("updated_at", nullable=False)


def exact(name: str, nullable: bool = True, default: str | None = None) -> Column[Any]:
    """An exact decimal: points, money, counters."""
    return Column(name, Numeric, nullable=nullable, server_default=text(default) if default is not None else None)


def texts(name: str) -> Column[Any]:
    """A list of strings that is empty when unset."""
    return Column(name, ARRAY(Text), nullable=False, server_default=text("'{}'"))


def document(name: str, nullable: bool = False) -> Column[Any]:
    """A JSON object that is empty when unset."""
    return Column(name, JSONB(none_as_null=True), nullable=nullable, server_default=None if nullable else text("'{}'"))


def execute_on(moment: Literal["before_create", "after_create"], target: Table | MetaData, statement: str) -> None:
    """Create something that a table cannot declare, an extension or a trigger, together with the table."""
    event.listen(target, moment, DDL(statement))  # type: ignore[no-untyped-call]
