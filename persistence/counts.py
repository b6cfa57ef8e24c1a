"""How many rows a list has in all, counted as far as that takes no longer than the page."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, literal, select

# So many are counted in some milliseconds, ten million in more seconds than a call may take. The planner cannot know
# how many there are, since it has no statistics of single organizations.
MOST_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class RowCount:
    """A number of rows; one that is not exact is a lower bound."""

    rows: int
    is_exact: bool = True


def count_rows(db: Connection, source: Any, conditions: list[Any]) -> RowCount:
    """Count the rows of `source` that meet conditions, up to one more than `MOST_COUNTED`."""
    first_rows = select(literal(1)).select_from(source).where(*conditions).limit(MOST_COUNTED + 1).subquery()
    count: int = db.execute(select(func.count()).select_from(first_rows)).scalar_one()
    return RowCount(count, is_exact=count <= MOST_COUNTED)
