"""The states of transactions that hold points for a time, such as for an offline allowance or a payment."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class HoldState:
    """The state of the transaction that holds the points; `ended_at` is when it was settled or released.

    `returned` of its amount was given back, worth `fiat_returned`, at last at `returned_at`.
    """

    status: int
    is_captured: bool
    ended_at: datetime
    amount: Decimal
    fiat_value: Decimal | None
    returned: Decimal
    fiat_returned: Decimal
    returned_at: datetime | None
