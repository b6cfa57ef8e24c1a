"""Functions that render the responses of lists, from a function that renders a record."""

from collections.abc import Callable, Sequence
from typing import Any

from persistence.paging import Paged


def listed(shape: Callable[[Any], Any]) -> Callable[[Paged[Any]], dict[str, Any]]:
    """A function that renders the response of a paged list (integration 1, convention 3)."""
    return lambda paged: {
        "totalCount": paged.total_count,
        "page": paged.page,
        "limit": paged.limit,
        **exactness_of(paged),
        "results": [shape(record) for record in paged.results],
    }


def exactness_of(paged: Paged[Any]) -> dict[str, bool]:
    """The field `totalIsExact`, false for a total that is not exact; no field for an exact total."""
    return {} if paged.is_exact else {"totalIsExact": False}


def listed_by_cursor(shape: Callable[[Any], Any]) -> Callable[[Paged[Any]], dict[str, Any]]:
    """A function that renders the response of a paged list with the cursor of the next page."""
    page = listed(shape)
    return lambda paged: {**page(paged), "nextCursor": paged.next_cursor}


def results(shape: Callable[[Any], Any], name: str = "results") -> Callable[[Sequence[Any]], dict[str, Any]]:
    """A function that renders the response of a list that is not paged: `{name: [...]}`."""
    return lambda records: {name: [shape(record) for record in records]}
