"""The base of the shapes that other modules declare with marshmallow's fields, compiled once to plain functions.

The document has already checked the content of a body, so loading only renames and converts. marshmallow's own
functions cost ten times more for the same result, so only its declarations are used. A field whose values differ in the
code and on the wire has a function `load`, which converts the value of a body, or `dump`, which converts the value of
the code; both are never called with None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from operator import attrgetter, itemgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from marshmallow import Schema, fields

from domain.calendar import instant_of, instant_text, local_of
from domain.fields import Mark, wire_name
from domain.problems import FieldFault, InvalidRequest
from handlers.messages.json_text import exact_number

Item = TypeVar("Item")


class UnusableText(ValueError):
    """A text that the OpenAPI document allows but that cannot be used; the message follows the name of the field."""


class Instant(fields.Field[Any]):
    """A date-time: aware UTC in the code, RFC 3339 with `Z` on the wire."""

    load, dump = staticmethod(instant_of), staticmethod(instant_text)


class LocalInstant(Instant):
    """Like Instant, but a text without an offset becomes a naive time: local time in a zone that is looked up later."""

    load = staticmethod(local_of)


LocalMoment = Annotated[datetime, LocalInstant]
"""A moment in a body that may be local time, see `LocalInstant`."""


class Exact(fields.Field[Any]):
    """A decimal number, in the code and on the wire; never a binary float."""

    dump = staticmethod(exact_number)

    def load(self, value: Any) -> Decimal:
        """The number as a Decimal."""
        return value if isinstance(value, Decimal) else Decimal(value)


class _Key(fields.Field[Any]):
    """A generated key, or a list of keys: in lower case in the code, in any case in requests."""

    def load(self, value: Any) -> Any:
        """The key or keys in lower case."""
        return value.lower() if isinstance(value, str) else [key.lower() for key in value]


class Calendar(fields.Field[Any]):
    """A calendar day: a date in the code, ISO 8601 on the wire."""

    load = staticmethod(date.fromisoformat)

    def dump(self, value: date) -> str:
        """The day as text."""
        return value.isoformat()


class Plain(fields.Field[Any]):
    """A value that is the same in the code and on the wire: text, boolean, integer, JSON object, or a list of these."""


class Completed(fields.Field[Any]):
    """A JSON object to which responses add its missing fields, with the values in `empty`.

    `parts` has such values for the fields of nested objects, by name. A nested object that is missing is not added.
    """

    def __init__(self, empty: Mapping[str, Any], parts: Mapping[str, Mapping[str, Any]] = {}) -> None:
        super().__init__()
        self._empty, self._parts = empty, parts

    def dump(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """The completed object."""
        parts = {name: {**empty, **value[name]} for name, empty in self._parts.items() if name in value}
        return {**self._empty, **value, **parts}


def loaded_items(load: Callable[[Any], Item], items: Sequence[Any]) -> list[Item]:
    """The values that `load` returns for the items of an array; raises InvalidRequest with the faults of all items."""
    results: list[Item] = []
    faults: list[FieldFault] = []
    for index, item in enumerate(items):
        try:
            results.append(load(item))
        except InvalidRequest as refusal:
            faults += [replace(fault, pointer=f"/{index}{fault.pointer}") for fault in refusal.faults]
    if faults:
        raise InvalidRequest(faults)
    return results


class Nested(fields.Field[Any]):
    """A nested JSON object, or with `many` a list of them, by a shape that has `dump` or `load`."""

    def __init__(self, shape: Any, many: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shape, self.many = shape, many

    def dump(self, value: Any) -> Any:
        """The JSON object of the value, or the list of JSON objects."""
        return [self.shape.dump(item) for item in value] if self.many else self.shape.dump(value)

    def load(self, value: Any) -> Any:
        """The value of the JSON object, or the list of values."""
        return loaded_items(self.shape.load, value) if self.many else self.shape.load(value)


class WireSchema(Schema):
    """A marshmallow schema whose fields have camelCase names on the wire."""

    def on_bind_field(self, field_name: str, field_obj: fields.Field[Any]) -> None:
        """Name the field on the wire after its Python name unless it declares another one."""
        field_obj.data_key = field_obj.data_key or wire_name(field_name)


OF_REQUEST = {"of_request": True}
"""Metadata of a field that describes only the request.

The field is not stored, and an update that leaves it out gets its default, not a value of the record.
"""

Command = TypeVar("Command")


def values_of(command: Any) -> dict[str, Any]:
    """The fields of a command by name, except fields that are not stored (`OF_REQUEST`)."""
    return {name: getattr(command, name) for name in _names_of_values(type(command))}


def _names_of_values(command: Any) -> tuple[str, ...]:
    """The names of the stored fields of a class of commands."""
    names = _NAMES_OF_VALUES.get(command)
    if names is None:
        fields_of_command = dataclasses.fields(command)
        names = tuple(field.name for field in fields_of_command if not field.metadata.get("of_request"))
        _NAMES_OF_VALUES[command] = names
    return names


_NAMES_OF_VALUES: dict[Any, tuple[str, ...]] = {}


def _default_of(field: dataclasses.Field[Any]) -> Callable[[], Any]:
    """A function that returns the default of a field; None for a field without a default."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    default = None if field.default is dataclasses.MISSING else field.default
    return lambda: default


@dataclass(frozen=True, slots=True)
class _WireField:
    """One field of a schema: its name in Python, its name on the wire, and the field that converts its values.

    With `omit_none`, a response leaves the field out if it is None.
    """

    name: str
    wire: str
    kind: fields.Field[Any]
    omit_none: bool


def _fields_of(schema: type[Any]) -> Iterator[_WireField]:
    """The fields of a marshmallow schema, a named tuple or a dataclass, except internal ones."""
    if issubclass(schema, Schema):
        for name, field in schema().fields.items():
            yield _WireField(
                field.attribute or name, field.data_key or name, field, bool(field.metadata.get("omit_none"))
            )
        return
    hints = get_type_hints(schema, include_extras=True)
    if issubclass(schema, tuple):
        yield from (_WireField(name, wire_name(name), _kind_of(hint), omit_none=False) for name, hint in hints.items())
        return
    for field_of_class in dataclasses.fields(schema):
        name, metadata = field_of_class.name, field_of_class.metadata
        if Mark.INTERNAL in getattr(hints[name], "__metadata__", ()):
            continue
        wire = metadata.get("wire") or wire_name(name)
        yield _WireField(name, wire, _kind_of(hints[name]), bool(metadata.get("omit_none")))


_KINDS: Mapping[Any, type[fields.Field[Any]]] = {datetime: Instant, Decimal: Exact, date: Calendar}


def _kind_of(hint: Any) -> fields.Field[Any]:
    """The marshmallow field that converts values of a type."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _marked_kind_of(parts[0], parts[1:])
    if origin in (Union, UnionType):
        types = [part for part in parts if part is not NoneType]
        return _kind_of(types[0]) if len(types) == 1 else Plain()
    if dataclasses.is_dataclass(hint):
        return Nested(Body(cast("type[Any]", hint)))
    if origin in (list, tuple, Sequence):
        item = _kind_of(parts[0])
        if isinstance(item, Nested):
            return Nested(item.shape, many=True)
        # A `_Key` also converts lists of keys; other lists are not converted.
        return item if isinstance(item, _Key) else Plain()
    return _KINDS.get(hint, Plain)()


def _marked_kind_of(hint: Any, marks: Sequence[Any]) -> fields.Field[Any]:
    """The marshmallow field among the marks of an annotated type; without one, the field for the type."""
    for mark in marks:
        if isinstance(mark, fields.Field):
            return mark
        if isinstance(mark, type) and issubclass(mark, fields.Field):
            return mark()
    return _Key() if Mark.KEY in marks else _kind_of(hint)


class Shape:
    """Classes of records, commands and schemas, compiled to `dump`, which writes a record as a JSON object.

    The JSON object has all fields of the schemas except internal ones; if several schemas have a field, the first one
    declares it. `only` names the fields that it has, or `without` the fields that it lacks; `names` renames fields, and
    `optional` names the fields that it leaves out if they are None, like fields with the metadata `omit_none`.
    """

    def __init__(
        self,
        *schemas: type[Any],
        only: Collection[str] | None = None,
        without: Collection[str] = (),
        names: Mapping[str, str] = {},
        optional: Collection[str] = (),
    ) -> None:
        fields_by_name: dict[str, _WireField] = {}
        for schema in schemas:
            for field in _fields_of(schema):
                fields_by_name.setdefault(field.name, field)
        unknown_names = {*(only or ()), *without, *names, *optional} - fields_by_name.keys()
        if unknown_names:
            raise ValueError(f"the schemas have no fields {', '.join(sorted(unknown_names))}")
        response_fields = {
            name: field
            for name, field in fields_by_name.items()
            if name not in without and (only is None or name in only)
        }
        self._dumps: list[tuple[str, Callable[[Any], Any] | None, bool]] = [
            (names.get(name, field.wire), getattr(field.kind, "dump", None), field.omit_none or name in optional)
            for name, field in response_fields.items()
        ]
        # Each reads all values of a record by one call, since responses have many records with many fields.
        self._of_mapping = _getter(itemgetter, tuple(response_fields))
        self._of_record = _getter(attrgetter, tuple(response_fields))

    def dump(self, record: Any) -> dict[str, Any]:
        """The JSON object of a record or mapping."""
        values = self._of_mapping(record) if isinstance(record, Mapping) else self._of_record(record)
        response: dict[str, Any] = {}
        for (wire, convert, omit_none), value in zip(self._dumps, values, strict=True):
            if value is None:
                if not omit_none:
                    response[wire] = None
            else:
                response[wire] = value if convert is None else convert(value)
        return response

    # So that a shape can be used as a function that renders a response.
    __call__ = dump


def _getter(kind: Callable[..., Any], names: tuple[str, ...]) -> Callable[[Any], Sequence[Any]]:
    """A function that returns the values of these names; `kind` is `itemgetter` or `attrgetter`."""
    if not names:
        return lambda record: ()
    read = kind(*names)
    # With a single name, `read` returns the value itself: put it into a tuple, as callers expect.
    return (lambda record: (read(record),)) if len(names) == 1 else read


class Body(Shape, Generic[Command]):
    """Reads checked JSON objects as commands: dataclasses whose field types define how each field is read.

    A `datetime` is read as an `Instant`, a `Decimal` as `Exact`, a nested dataclass as a nested object, and `Annotated`
    names any other field. A field that is null or left out gets the default of the dataclass.
    """

    def __init__(self, command: type[Command]) -> None:
        super().__init__(command)
        self.command = command
        self._loads = {field.wire: (field.name, getattr(field.kind, "load", None)) for field in _fields_of(command)}
        self._defaults = {field.name: _default_of(field) for field in dataclasses.fields(cast(Any, command))}

    def load(self, body: Mapping[str, Any]) -> Command:
        """Decode the command of an accepted JSON object; raises InvalidRequest for values that cannot be converted."""
        return self.command(**self._load_fields(body))

    def changes(self, body: Mapping[str, Any]) -> Changes[Command]:
        """Decode the sent fields of an accepted JSON object; raises InvalidRequest like `load`."""
        return Changes(self.command, self._load_fields(body))

    def _load_fields(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the fields of a body to values, keyed by Python name; raises InvalidRequest with all faults."""
        values: dict[str, Any] = {}
        faults = []
        for wire, value in body.items():
            name, convert = self._loads[wire]
            try:
                if value is None:
                    values[name] = self._defaults[name]()
                else:
                    values[name] = value if convert is None else convert(value)
            except InvalidRequest as refusal:
                faults += [replace(fault, pointer=f"/{wire}{fault.pointer}") for fault in refusal.faults]
            except UnusableText as error:
                faults.append(FieldFault(f"{wire} {error}", pointer=f"/{wire}"))
            except ValueError:
                # The OpenAPI document has already refused all other wrong texts: only a date can still be impossible.
                faults.append(FieldFault(f"{wire} is not between the years 1 and 9999", pointer=f"/{wire}"))
        if faults:
            raise InvalidRequest(faults)
        return values


class Update(Generic[Command]):
    """Reads the body of an update: the fields that are sent, as changes of a command."""

    def __init__(self, command: type[Command]) -> None:
        self.command = command
        self.load = Body(command).changes


@dataclass(frozen=True, slots=True)
class Changes(Generic[Command]):
    """The fields that an update sends, by their Python names."""

    command: type[Command]
    fields: Mapping[str, Any]

    def of(self, record: Any) -> Command:
        """The command of the sent fields and, for the other fields, of the values in `record`.

        If `record` is None, the other fields get their defaults.
        """
        if record is None:
            return self.command(**self.fields)
        unchanged = {name: getattr(record, name) for name in _names_of_values(self.command) if name not in self.fields}
        return self.command(**unchanged, **self.fields)


MERGED = "merged"

Merged = Annotated[Command, MERGED]
"""The command of an update, with the stored values of the fields that the request leaves out."""


def wrapped(name: str, shape: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    """A function that renders the response of a single record: `{name: record}`."""
    return lambda record: {name: shape(record)}


def wrapped_list(name: str, shape: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    """A function that renders the response of a single record as a list of one: `{name: [record]}`."""
    return lambda record: {name: [shape(record)]}
