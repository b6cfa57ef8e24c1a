"""Searches of documents, checked against the declarations of their collection (integration 4.4, item 5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from domain.content.collections import BOOLEAN, DATE, NUMBER, STRING, ContentCollection
from domain.content.values import MAX_TEXT_LENGTH, is_date, moment_of, number_of, number_text
from domain.problems import FieldFault, InvalidRequest, did_you_mean

RECORD_FIELDS = ("documentKey", "slug", "status", "locale", "fromDate", "toDate", "createdAt", "updatedAt")
_ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class SortKey:
    """A field to sort by: a field of the record, or a field of `attrs` with its `type`.

    `type` is None for a field of the record, and for a field whose type the collection does not declare.
    """

    field: str
    is_descending: bool
    is_of_record: bool
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a range filter; `minimum` and `maximum` are included, `before` is not, and None means no bound."""

    field: str
    type: str
    minimum: Decimal | datetime | None = None
    maximum: Decimal | datetime | None = None
    before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """A search of one locale and status of a collection.

    `words` are all required. `facets` has for each field the texts of which a document must have one. Pages are counted
    from 0.
    """

    collection: ContentCollection
    locale: str
    status: str
    words: tuple[str, ...] = ()
    facets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ranges: tuple[Bounds, ...] = ()
    sort: tuple[SortKey, ...] = ()
    page: int = 0
    limit: int = 20


class SearchReader:
    """Reads the parameters of a search and collects all faults."""

    def __init__(self, collection: ContentCollection) -> None:
        self._collection = collection
        self._faults: list[FieldFault] = []

    def refuse_faults(self) -> None:
        """Raise InvalidRequest with all faults collected so far, if there are any."""
        if self._faults:
            raise InvalidRequest(self._faults)

    def add_fault(self, parameter: str, detail: str) -> None:
        """Add a fault of a parameter."""
        self._faults.append(FieldFault(detail, parameter=parameter[:100]))

    def sort(self, text: str | None) -> tuple[SortKey, ...]:
        """The sort keys of a text `field:direction,...`; no keys for None."""
        if not text:
            return ()
        keys = []
        for part in text.split(","):
            name, _, direction = part.partition(":")
            is_of_record = name in RECORD_FIELDS
            collection = self._collection
            # A collection that does not describe its fields accepts any field names.
            if not is_of_record and not collection.declares(name) and collection.properties:
                self._add_unknown_field("sort", name)
            kind = None if is_of_record else collection.type_of(name)
            keys.append(SortKey(name, direction == "desc", is_of_record, kind))
        return tuple(keys)

    def facets(self, pairs_by_field: Mapping[str, Sequence[tuple[str, str]]]) -> dict[str, tuple[str, ...]]:
        """The texts to filter by, for each field: a document must have one of them.

        `pairs_by_field` has for each field its values as sent, as pairs (parameter of the request, value).
        """
        facets: dict[str, tuple[str, ...]] = {}
        for name, pairs in pairs_by_field.items():
            if not self._collection.declares(name):
                self._add_unknown_field(pairs[0][0], name)
                continue
            values = [text for parameter, value in pairs for text in self._facet_values(name, parameter, value)]
            facets[name] = tuple(dict.fromkeys(values))
        return facets

    def _facet_values(self, field_name: str, parameter: str, value: str) -> list[str]:
        """The texts that match a value of a facet, in most cases only the value as sent.

        For a number field it is the canonical form of the number. For a field without a declared type it is the value
        as sent and, if that is a number, also its canonical form. A fault is added for the query `parameter`.
        """
        kind = self._collection.type_of(field_name)
        if len(value) > MAX_TEXT_LENGTH:
            self.add_fault(
                parameter, f"{field_name} is compared with {len(value)} characters: send at most {MAX_TEXT_LENGTH}."
            )
        elif kind == NUMBER:
            number = number_of(value)
            if number is not None:
                return [number_text(number)]
            self.add_fault(parameter, f"{value[:50]} is not a number: send a number to compare {field_name} with.")
        elif kind == BOOLEAN and value not in ("true", "false"):
            self.add_fault(parameter, f"{field_name} is compared with true or false, not with {value[:50]}.")
        elif kind == DATE and moment_of(value) is None:
            self.add_fault(parameter, f"{value[:50]} is not a date: send a date to compare {field_name} with.")
        elif kind is None and (number := number_of(value)) is not None:
            return [value, number_text(number)]
        return [value]

    def ranges(self, ends_by_field: Mapping[str, Mapping[str, tuple[str, str]]]) -> tuple[Bounds, ...]:
        """The bounds of each field; fields with a fault are left out.

        `ends_by_field` has for each field its ends by `min` and `max`, each as a pair (parameter, text).
        """
        ranges = []
        for name, ends in ends_by_field.items():
            if not self._collection.declares(name):
                self._add_unknown_field(next(iter(ends.values()))[0], name)
                continue
            bounds = self._bounds(name, ends)
            if bounds is not None:
                ranges.append(bounds)
        return tuple(ranges)

    def _bounds(self, field_name: str, ends: Mapping[str, tuple[str, str]]) -> Bounds | None:
        """The bounds of one field; None, and a fault is added, if an end of the range is faulty."""
        kind = self._collection.type_of(field_name)
        if kind in (STRING, BOOLEAN):
            parameter = next(iter(ends.values()))[0]
            self.add_fault(parameter, f"{field_name} is a {kind}; only numbers and dates have ranges.")
            return None
        if kind is None:
            kind = NUMBER if all(number_of(text) is not None for _, text in ends.values()) else DATE
        parse: Any = number_of if kind == NUMBER else moment_of
        values: dict[str, Any] = {}
        for end, (parameter, text) in ends.items():
            values[end] = parse(text)
            if values[end] is None:
                noun = "a number" if kind == NUMBER else "a date or date-time (RFC 3339)"
                self.add_fault(parameter, f"A bound of {field_name} must be {noun}; {text[:50]} is not.")
        if None in values.values():
            return None
        minimum, maximum = values.get("min"), values.get("max")
        if kind == DATE and maximum is not None and is_date(ends["max"][1]):
            try:
                # A date as the end includes the whole day.
                return Bounds(field_name, kind, minimum=minimum, before=maximum + _ONE_DAY)
            except OverflowError:
                # No moment follows the last day of the calendar; only its first moment is included.
                pass
        return Bounds(field_name, kind, minimum=minimum, maximum=maximum)

    def _add_unknown_field(self, parameter: str, name: str) -> None:
        """Add the fault of a field that the collection does not declare."""
        field_names = (*self._collection.facet_fields, *self._collection.properties)
        detail = f"The field {name[:100]} is neither in facetFields nor in jsonschema of the collection."
        self.add_fault(parameter, detail + did_you_mean(name, field_names))


def sort_of(collection: ContentCollection, text: str | None) -> tuple[SortKey, ...]:
    """The sort keys of the text of a `sort` parameter; raises InvalidRequest."""
    reader = SearchReader(collection)
    keys = reader.sort(text)
    reader.refuse_faults()
    return keys
