"""The base of the shapes that the subjects' modules declare with marshmallow, compiled once to plain functions.

The document has already checked the content of a body, so loading only renames and converts. marshmallow's own
machinery costs ten times more for the same result and is used for the declaration only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

from marshmallow import Schema, fields

from domain.calendar import instant_of, local_of
from domain.problems import FieldFault, InvalidRequest
from persistence.paging import Paged

# Wider than any number that a request may hold, so that dropping trailing zeros never rounds.
_WITHOUT_ROUNDING = Context(prec=1000)
# Beyond it a number is written with an exponent: an expression can come to a number of thousands of digits.
_MOST_PLAIN_DIGITS = 40


def instant_text(moment: datetime) -> str:
    """RFC 3339 in UTC with `Z`, microseconds only where there are any."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def exact_number(value: Decimal | int) -> Decimal | int:
    """The shortest exact JSON number of a decimal: 100 for 100.000, 0.5 for 0.50."""
    if isinstance(value, int):
        return value
    whole = value.to_integral_value()
    if whole != value or value.adjusted() > _MOST_PLAIN_DIGITS:
        return value.normalize(_WITHOUT_ROUNDING)
    return int(whole)


def json_able(value: Any) -> Any:
    """A value of an expression as JSON has it."""
    if isinstance(value, dict):
        return {str(name): json_able(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_able(each) for each in value]
    if isinstance(value, Decimal):
        return exact_number(value)
    return instant_text(value) if isinstance(value, datetime) else value


class UnusableText(ValueError):
    """A text that its document allows and that cannot be used; what is wrong follows the field's name."""


class Instant(fields.Field[Any]):
    """A date-time: aware UTC inside, RFC 3339 with `Z` on the wire."""

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> Any:
        return None if value is None else instant_text(value)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        return instant_of(value)


class LocalInstant(Instant):
    """Like Instant, but a text without an offset stays without one: it is local time in a zone that is found later."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        return local_of(value)


class Exact(fields.Field[Any]):
    """A number that is never a binary float."""

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> Any:
        return None if value is None else exact_number(value)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        return value if isinstance(value, Decimal) else Decimal(value)


class Calendar(fields.Field[Any]):
    """A calendar day, ISO 8601."""

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> Any:
        return None if value is None else value.isoformat()

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        return date.fromisoformat(value)


class Plain(fields.Field[Any]):
    """A value that is the same inside and on the wire: text, boolean, integer, JSON object, or a list of them."""


class Part(fields.Field[Any]):
    """A nested shape."""

    def __init__(self, shape: Shape, many: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shape, self.many = shape, many

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> Any:
        if value is None:
            return None
        return [self.shape.dump(v) for v in value] if self.many else self.shape.dump(value)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        return [self.shape.load(v) for v in value] if self.many else self.shape.load(value)


def camel(name: str) -> str:
    """The wire name of an inside name: `ledger_account_id` is `ledgerAccountId`."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


class WireSchema(Schema):
    """A marshmallow schema whose fields go by camelCase names on the wire."""

    def on_bind_field(self, field_name: str, field_obj: fields.Field[Any]) -> None:
        """Name the field on the wire after its inside name unless it declares another one."""
        field_obj.data_key = field_obj.data_key or camel(field_name)


OF_REQUEST = {"of_request": True}
"""Metadata of a field that says something of the request: left out of an update, it stays left out."""


class Shape:
    """A schema compiled to functions: `load` a checked JSON object, `dump` a record or mapping.

    Fields that are left out take their `load_default` (else None) when the shape is `complete`, for creations, and stay
    left out otherwise, for updates; null means the default in both cases. `completed` adds stored values to an update,
    except for fields with the metadata `OF_REQUEST`. A field with `metadata={"omit_none": True}` is left out of an
    answer when it is None.
    """

    def __init__(self, schema: type[Schema], complete: bool = False) -> None:
        bound = schema()
        self._loads: dict[str, tuple[str, Callable[[Any], Any] | None]] = {}
        self._dumps: list[tuple[str, str, Callable[[Any], Any] | None, bool]] = []
        self._defaults: dict[str, Any] = {}
        self._kept: list[str] = []
        self._complete = complete
        for name, field in bound.fields.items():
            inside = field.attribute or name
            wire = field.data_key or name
            if not field.dump_only:
                self._loads[wire] = (inside, _loader(field))
                default = field.load_default
                self._defaults[inside] = None if default is _MISSING else default
                if not field.metadata.get("of_request"):
                    self._kept.append(inside)
            if not field.load_only:
                self._dumps.append((inside, wire, _dumper(field), bool(field.metadata.get("omit_none"))))

    def load(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The inside form of a JSON object that the document accepted; faults of format raise InvalidRequest."""
        loaded = {inside: self._default(inside) for inside in self._defaults} if self._complete else {}
        faults = []
        for wire, value in (body or {}).items():
            inside, convert = self._loads[wire]
            try:
                if value is None:
                    loaded[inside] = self._default(inside)
                else:
                    loaded[inside] = value if convert is None else convert(value)
            except UnusableText as error:
                faults.append(FieldFault(f"{wire} {error}", pointer=f"/{wire}"))
            except ValueError:
                faults.append(FieldFault(f"{wire} is not between the years 1 and 9999", pointer=f"/{wire}"))
        if faults:
            raise InvalidRequest(faults)
        return loaded

    def completed(self, changes: Mapping[str, Any], stored: Any) -> dict[str, Any]:
        """The record that an update makes of `stored`: fields that `changes` leaves out keep their values.

        If there is no record yet, they take their defaults.
        """
        left_out = [name for name in self._kept if name not in changes]
        kept = {name: self._default(name) if stored is None else getattr(stored, name) for name in left_out}
        return kept | dict(changes)

    def _default(self, inside: str) -> Any:
        default = self._defaults[inside]
        return default() if callable(default) else default

    def dump(self, record: Any) -> dict[str, Any]:
        """The JSON object of a record or mapping."""
        read = record.__getitem__ if isinstance(record, Mapping) else lambda name: getattr(record, name)
        answer: dict[str, Any] = {}
        for inside, wire, convert, omit_none in self._dumps:
            value = read(inside)
            if value is None:
                if not omit_none:
                    answer[wire] = None
            else:
                answer[wire] = value if convert is None else convert(value)
        return answer

    def __call__(self, record: Any) -> dict[str, Any]:
        """The same as `dump`, so that a shape can be used as a function that renders an answer."""
        return self.dump(record)


_MISSING = fields.Field().load_default


def _loader(field: fields.Field[Any]) -> Callable[[Any], Any] | None:
    if isinstance(field, Plain):
        return None
    return lambda value: field._deserialize(value, None, None)


def _dumper(field: fields.Field[Any]) -> Callable[[Any], Any] | None:
    if isinstance(field, Plain):
        return None
    return lambda value: field._serialize(value, None, None)


def wrapped(name: str, shape: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    """A function that renders the answer of a single record: `{name: record}`."""
    return lambda record: {name: shape(record)}


def listed(shape: Callable[[Any], Any]) -> Callable[[Paged[Any]], dict[str, Any]]:
    """A function that renders the answer of a paged list (integration 1, convention 3)."""
    return lambda found: {
        "totalCount": found.total_count,
        "page": found.page,
        "limit": found.limit,
        "results": [shape(r) for r in found.results],
    }


def results(shape: Callable[[Any], Any], name: str = "results") -> Callable[[Sequence[Any]], dict[str, Any]]:
    """A function that renders the answer of a list that is not paged: `{results: [...]}`."""
    return lambda found: {name: [shape(r) for r in found]}
