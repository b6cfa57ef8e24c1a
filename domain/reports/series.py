"""A report as a series: figures of one day after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class DailySeries:
    """Named figures of each of some days, in their order; `rows` has a figure of each name for every day."""

    title: str
    names: tuple[str, ...]
    days: Sequence[date]
    rows: Sequence[tuple[Decimal, ...]]
