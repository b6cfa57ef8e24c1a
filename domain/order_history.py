"""The earlier orders of a member: their number, and the date of the last one."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from domain.orders import UNDONE, Order


@dataclass(frozen=True, slots=True)
class EarlierOrders:
    """The number of orders before a moment, and the date of the last of them."""

    count: int = 0
    last_at: datetime | None = None


NO_ORDERS = EarlierOrders()


class OrderHistory:
    """The orders of members that were not undone; `dates` are those of each member, in order."""

    def __init__(self, dates: Mapping[int, Sequence[datetime]]) -> None:
        self._dates = dates

    def before(
        self, member_id: int, at: datetime, others: Iterable[Order] = (), own_order_id: int | None = None
    ) -> EarlierOrders:
        """The member's orders before `at` without the own one; `others` are not among the dates."""
        dates = self._dates.get(member_id, ())
        count = bisect_left(dates, at)
        more = [
            order.happened_at
            for order in others
            if order.member_id == member_id and order.order_id != own_order_id and order.status not in UNDONE
        ]
        more = [moment for moment in more if moment < at]
        return EarlierOrders(count + len(more), max([*dates[max(0, count - 1) : count], *more], default=None))
