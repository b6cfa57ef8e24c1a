"""The purchases of CDNOW's customers, 1997-1998, and the points that they should get under a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from bench.demo import purchases_file

ORDERS, MEMBERS = 69_659, 23_570
# Includes members with many orders in a month, and takes much less time than the whole file.
FIRST_ORDERS = 2_000
AT_LENGTH = [pytest.param(FIRST_ORDERS, id="some"), pytest.param(ORDERS, id="the whole file", marks=pytest.mark.stress)]
# The results of the whole file with one point for each whole dollar.
POINTS, TOP_MEMBER, TOP_POINTS = 2_453_159, "07592", 13_860


@dataclass(frozen=True)
class Order:
    """A line of the file; `date` in the form of the file, such as 19970131."""

    number: int
    customer: str
    date: str
    total: Decimal

    @property
    def key(self) -> str:
        return f"cdnow-{self.number:06}"

    @property
    def at(self) -> datetime:
        return datetime.strptime(self.date, "%Y%m%d").replace(tzinfo=UTC)

    @property
    def month(self) -> str:
        return self.date[:6]


def orders(count: int = ORDERS) -> list[Order]:
    """The first orders of the file."""
    read_orders = []
    for number, line in enumerate(purchases_file().read_text().splitlines()[1 : count + 1], 1):
        customer, date, _, total = line.split()
        read_orders.append(Order(number, customer, date, Decimal(total)))
    return read_orders


@dataclass
class Reckoning:
    """The points under a monthly limit: minted and discarded ones by member, and used ones by member and month."""

    minted: dict[str, int] = field(default_factory=dict)
    discarded: dict[str, int] = field(default_factory=dict)
    used: dict[tuple[str, str], int] = field(default_factory=dict)
    cut: int = 0
    """The number of mints that were reduced or discarded."""


def reckon(
    purchases: Iterable[Order], mints: Sequence[Callable[[Decimal], int]], *, limit: int, partially: bool
) -> Reckoning:
    """Apply the mints to each order; a mint beyond the limit is reduced if `partially`, else discarded."""
    reckoning = Reckoning()
    for order in purchases:
        month = (order.customer, order.month)
        for mint in mints:
            full_amount, remaining = mint(order.total), limit - reckoning.used.get(month, 0)
            minted_amount = full_amount if full_amount <= remaining else remaining if partially else 0
            reckoning.used[month] = reckoning.used.get(month, 0) + minted_amount
            reckoning.minted[order.customer] = reckoning.minted.get(order.customer, 0) + minted_amount
            reckoning.discarded[order.customer] = (
                reckoning.discarded.get(order.customer, 0) + full_amount - minted_amount
            )
            reckoning.cut += minted_amount < full_amount
    return reckoning
