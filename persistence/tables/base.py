"""The metadata of the schema, tables of records, and the columns and constraints that many tables share.

A column is named exactly as the dataclass field it fills. Every primary key and unique constraint of a tenant's table
starts with `organization_id`, so that the schema can be distributed by organization unchanged.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from sqlalchemy import (
    ARRAY,
    DDL,
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    ForeignKeyConstraint,
    Identity,
    Index,
    LargeBinary,
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
from sqlalchemy.types import TypeEngine

from domain.fields import Mark

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_TYPES: Mapping[Any, Any] = {
    bool: Boolean,
    bytes: LargeBinary,
    date: Date,
    datetime: DateTime(timezone=True),
    Decimal: Numeric,
    int: BigInteger,
    str: Text,
}
_EMPTY_OBJECT = _EMPTY_ARRAY = "'{}'"
_EMPTY_LIST = "'[]'"


def record_table(
    name: str,
    record: type[Any],
    key: str | tuple[str, ...],
    *items: Any,
    types: Mapping[str, Any] = {},
    defaults: Mapping[str, str] = {},
    without: Sequence[str] = (),
    **options: Any,
) -> Table:
    """A table with a column for each field of a record, in their order and of the type that the field has.

    `key` is the name of a generated id, or the columns of the primary key besides `organization_id`. `types` and
    `defaults` are for columns whose type or default the field does not determine; a column in `types` has a default
    only if `defaults` has one. `without` names fields that are read from other tables. `items` are constraints, indexes
    and columns. A column that is named like a field replaces the column of this field; other columns are added. A
    record with an `external_key` is unique by it.
    """
    extra_columns = {item.name: item for item in items if isinstance(item, Column)}
    columns = [
        _column(field, hint, types.get(field), defaults.get(field), extra_columns.pop(field, None))
        for field, hint in _hints(record).items()
        if field not in without
    ]
    if isinstance(key, str):
        columns = [_generated_id(key) if column.name == key else column for column in columns]
    constraints = [item for item in items if not isinstance(item, Column)]
    if any(column.name == "external_key" for column in columns):
        constraints.append(unique("external_key"))
    key_columns = (key,) if isinstance(key, str) else key
    # Users belong to no organization, and the key of an organization is its id.
    if "organization_id" not in key_columns and any(column.name == "organization_id" for column in columns):
        key_columns = ("organization_id", *key_columns)
    primary_key = PrimaryKeyConstraint(*key_columns)
    return Table(name, metadata, *columns, *extra_columns.values(), primary_key, *constraints, **options)


def _hints(record: type[Any]) -> dict[str, Any]:
    """The type hints of the fields of a record, with their marks."""
    hints = get_type_hints(record, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(record)}


def _column(
    name: str, hint: Any, explicit_type: Any, default: str | None, replacement: Column[Any] | None
) -> Column[Any]:
    """The column of a field, or its replacement, marked as personal if the field is.

    `explicit_type` and `default` are None if the type hint determines them.
    """
    hint, marks, nullable = _parts_of_hint(hint)
    if replacement is not None:
        return personal(replacement) if Mark.PERSONAL in marks else replacement
    column_type, empty = (explicit_type, None) if explicit_type is not None else _type_of(name, hint, marks)
    if default is None and not nullable:
        default = empty
    return Column(
        name,
        column_type,
        nullable=nullable,
        server_default=None if default is None else text(default),
        info={"personal": Mark.PERSONAL in marks},
    )


def _parts_of_hint(hint: Any) -> tuple[Any, frozenset[Any], bool]:
    """The type without its marks and without None, its marks, and whether it allows None."""
    marks: frozenset[Any] = frozenset()
    nullable = False
    while True:
        if get_origin(hint) is Annotated:
            hint, *annotations = get_args(hint)
            marks |= {mark for mark in annotations if isinstance(mark, Mark)}
        elif get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint):
            nullable = True
            [hint] = [part for part in get_args(hint) if part is not NoneType]
        else:
            return hint, marks, nullable


def _type_of(name: str, hint: Any, marks: frozenset[Any]) -> tuple[TypeEngine[Any] | type[TypeEngine[Any]], str | None]:
    """The type of the column of the field `name`, and the SQL of an empty list or object of this type, else None."""
    if Mark.KEY in marks:
        return Uuid(as_uuid=False), None
    origin = get_origin(hint)
    if origin is Mapping:
        return JSONB(none_as_null=True), _EMPTY_OBJECT
    if origin in (Sequence, list, tuple):
        item = get_args(hint)[0]
        return (ARRAY(_TYPES[item]), _EMPTY_ARRAY) if item in _TYPES else (JSONB(none_as_null=True), _EMPTY_LIST)
    if hint not in _TYPES:
        raise TypeError(f"the type of the column {name} does not follow from {hint}")
    return _TYPES[hint], None


def _generated_id(name: str) -> Column[Any]:
    return Column(name, BigInteger, Identity(always=False), nullable=False)


def tenant_table(name: str, key: str | tuple[str, ...], *items: Any, **options: Any) -> Table:
    """A table of rows of organizations that no record describes.

    `key` is the name of a generated id, or the columns of the primary key besides `organization_id`.
    """
    key_columns = (key,) if isinstance(key, str) else key
    return Table(
        name,
        metadata,
        *integers("organization_id"),
        *([_generated_id(key)] if isinstance(key, str) else []),
        *items,
        PrimaryKeyConstraint("organization_id", *key_columns),
        **options,
    )


def integers(*names: str) -> list[Column[Any]]:
    """Whole numbers that are never null, such as ids."""
    return [Column(name, BigInteger, nullable=False) for name in names]


def belongs_to_organization() -> ForeignKeyConstraint:
    """The foreign key of a record that belongs directly to the organization."""
    return ForeignKeyConstraint(["organization_id"], ["organizations.organization_id"])


def foreign_key(table: str, *columns: str, target: tuple[str, ...] | None = None) -> ForeignKeyConstraint:
    """A foreign key inside the organization; `target` has the columns of the other table if their names differ."""
    return ForeignKeyConstraint(
        ["organization_id", *columns],
        [f"{table}.organization_id", *(f"{table}.{column_name}" for column_name in (target or columns))],
    )


def unique(*columns: str, **options: Any) -> UniqueConstraint:
    """The constraint that no two records of an organization have the same values."""
    return UniqueConstraint("organization_id", *columns, **options)


def index(name: str | None, *columns: Any, where: str | None = None, unique: bool = False) -> Index:
    """An index by organization and these columns; with `where`, of the rows that meet this condition."""
    condition: dict[str, Any] = {} if where is None else {"postgresql_where": text(where)}
    return Index(name, "organization_id", *columns, unique=unique, **condition)


def instant(name: str, nullable: bool = True) -> Column[Any]:
    """A moment, stored in UTC."""
    return Column(name, DateTime(timezone=True), nullable=nullable)


def created_and_updated() -> tuple[Column[Any], Column[Any]]:
    """The columns `created_at` and `updated_at`, which every record of the API has."""
    return instant("created_at", nullable=False), instant("updated_at", nullable=False)


def exact(name: str, nullable: bool = True, default: str | None = None) -> Column[Any]:
    """An exact decimal: points, money, counters."""
    return Column(name, Numeric, nullable=nullable, server_default=text(default) if default is not None else None)


def texts(name: str) -> Column[Any]:
    """A list of strings that is empty when unset."""
    return Column(name, ARRAY(Text), nullable=False, server_default=text("'{}'"))


def personal(column: Column[Any]) -> Column[Any]:
    """Mark a column as personal data of a member, which is erased with the member; return the column."""
    column.info["personal"] = True
    return column


def execute_on(moment: Literal["before_create", "after_create"], target: Table | MetaData, *statements: str) -> None:
    """Execute SQL when a table is created, for what a table cannot declare, such as an extension or triggers."""
    for statement in statements:
        event.listen(target, moment, DDL(statement))  # type: ignore[no-untyped-call]
