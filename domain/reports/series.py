"""A report as a series of daily figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class DailySeries:
    """Named figures of consecutive days; `rows` has a figure of each name for every day."""

    title: str
    names: tuple[str, ...]
    days: Sequence[date]
    rows: Sequence[tuple[Decimal, ...]]
