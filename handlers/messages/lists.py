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
        "results": [shape(r) for r in paged.results],
    }


def exactness_of(paged: Paged[Any]) -> dict[str, bool]:
    """The field that marks a total that is not exact."""
    return {} if paged.is_exact else {"totalIsExact": False}


def listed_by_cursor(shape: Callable[[Any], Any]) -> Callable[[Paged[Any]], dict[str, Any]]:
    """The same for a list that can be read by cursor, too."""
    page = listed(shape)
    return lambda paged: {**page(paged), "nextCursor": paged.next_cursor}


def results(shape: Callable[[Any], Any], name: str = "results") -> Callable[[Sequence[Any]], dict[str, Any]]:
    """A function that renders the response of a list that is not paged: `{results: [...]}`."""
    return lambda records: {name: [shape(r) for r in records]}
