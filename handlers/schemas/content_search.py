"""Searches of documents on the wire.

Facets and ranges are sent by parameters named after fields, such as `facet.colour`, or by `facet` and `range`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from domain.content.collections import BOOLEAN, NUMBER, ContentCollection
from domain.content.documents import PUBLISHED
from domain.content.searching import Search, SearchReader
from domain.content.values import number_of, number_text
from domain.scalars import split_list
from handlers.messages.content import COLLECTION_NAME
from handlers.messages.json_text import exact_number
from handlers.schemas.content import DOCUMENT
from persistence.content.search import SearchPage

RANGE, FACET = "range", "facet"
MAX_FIELDS = 20
_ENDS = ("min", "max")

# One end of a range: the field, the end (min or max), the parameter that sets it, and the text of its value.
_End = tuple[str, str, str, str]


def search_of(collection: ContentCollection, query: Mapping[str, Any]) -> tuple[Search, dict[str, Any]]:
    """Build the search from the parsed query parameters, and its description for the response.

    Raises InvalidRequest with the faults of all parameters.
    """
    reader = SearchReader(collection)
    # By field: the names of the parameters, each with the value that was sent.
    facets: dict[str, list[tuple[str, str]]] = {}
    for field, parameter, value in _facet_values(query):
        facets.setdefault(field, []).append((parameter, value))
    # By field and end: the name of the parameter, and the value.
    ranges: dict[str, dict[str, tuple[str, str]]] = {}
    for field, end, parameter, value in _range_ends(reader, query):
        if end in ranges.setdefault(field, {}):
            reader.add_fault(parameter, f"The {end} of {field[:100]} is given more than once.")
        ranges[field][end] = (parameter, value)
    for name, by_field in ((FACET, facets), (RANGE, ranges)):
        if len(by_field) > MAX_FIELDS:
            reader.add_fault(name, f"The {name} parameters name more than {MAX_FIELDS} fields.")
    sort = reader.sort(query.get("sort"))
    search = Search(
        collection=collection,
        locale=query["locale"],
        status=query.get("status", PUBLISHED),
        words=tuple(query.get("q", "").split()),
        facets=reader.facets(facets),
        ranges=reader.ranges(ranges),
        sort=sort,
        page=query["page"],
        limit=query["limit"],
    )
    reader.refuse_faults()
    # The texts of the ends, by field and end.
    sent_ranges = {field: {end: text for end, (_, text) in ends.items()} for field, ends in ranges.items()}
    return search, {
        "q": query.get("q"),
        "locale": search.locale,
        "status": search.status,
        "sort": query.get("sort"),
        "page": search.page,
        "limit": search.limit,
        "facet": {field: list(values) for field, values in search.facets.items()},
        "range": {field: dict.fromkeys(_ENDS) | texts for field, texts in sent_ranges.items()},
    }


def _facet_values(query: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The field, parameter and value of each value in `facet.colour=red,blue` and `facet=colour=red`."""
    for parameter, text in query.get("facet.", ()):
        for value in split_list(text):
            yield parameter.removeprefix("facet."), parameter, value
    for item in query.get(FACET, ()):
        field, _, value = item.partition("=")
        yield field, FACET, value


def _range_ends(reader: SearchReader, query: Mapping[str, Any]) -> Iterator[_End]:
    """The ends of ranges in `range.price.min=10` and `range=price:10..20`."""
    for parameter, text in query.get("range.", ()):
        field, _, end = parameter.removeprefix("range.").rpartition(".")
        if end in _ENDS and field:
            yield field, end, parameter, text
        else:
            reader.add_fault(parameter, f"{parameter[:100]} has neither the form range.FIELD.min nor range.FIELD.max.")
    for item in query.get(RANGE, ()):
        field, _, bounds = item.partition(":")
        minimum, _, maximum = bounds.partition("..")
        if not (minimum or maximum):
            reader.add_fault(RANGE, f"The range of {field[:100]} has neither a minimum nor a maximum.")
        yield from ((field, end, RANGE, text) for end, text in zip(_ENDS, (minimum, maximum), strict=True) if text)


def search_response(collection: ContentCollection, query: Mapping[str, Any], page: SearchPage) -> dict[str, Any]:
    """The response to a search; `query` is the description of the search by `search_of`."""
    facets = {}
    for field, counts in page.facets.items():
        typed_counts = _in_type_of_field(collection.type_of(field), counts)
        facets[field] = [{"value": value, "count": count} for value, count in typed_counts]
    return {
        "collection": COLLECTION_NAME.dump(collection),
        "query": query,
        "totalCount": page.total_count,
        "items": [DOCUMENT.dump(item) for item in page.items],
        "facets": facets,
    }


def _in_type_of_field(field_type: str | None, counts: Iterable[tuple[str, int]]) -> Iterator[tuple[Any, int]]:
    """Values of a field with their counts, in the type of the field; a value of another type stays a text.

    A text such as `1.0`, which is not how its number is written, stays a text, too: a search for the number would not
    find it.
    """
    for value, count in counts:
        if field_type == BOOLEAN and value in ("true", "false"):
            yield json.loads(value), count
        elif field_type == NUMBER and (number := number_of(value)) is not None and number_text(number) == value:
            yield exact_number(number), count
        else:
            yield value, count
