"""The number of rows of a list, counted only as far as counting takes no longer than reading a page."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, literal, select

# Counting this many rows takes some milliseconds; counting ten million rows takes longer than a call may. The planner
# cannot estimate the number, since it has no statistics of single organizations.
MAX_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class RowCount:
    """A number of rows; one that is not exact is a lower bound."""

    rows: int
    is_exact: bool = True


def count_rows(
    db: Connection, source: Any, conditions: list[Any], parameters: Mapping[str, Any] | None = None
) -> RowCount:
    """Count the rows of `source` that meet conditions, up to one more than `MAX_COUNTED`.

    `parameters` are those of the source and the conditions.
    """
    first_rows = select(literal(1)).select_from(source).where(*conditions).limit(MAX_COUNTED + 1).subquery()
    count: int = db.execute(select(func.count()).select_from(first_rows), parameters).scalar_one()
    return RowCount(count, is_exact=count <= MAX_COUNTED)
