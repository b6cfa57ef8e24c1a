"""Lots: what a mint gave and has left, spent in the order in which they expire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Lot:
    """A lot with something left; `expires_at` None never expires."""

    ledger_lot_id: int
    expires_at: datetime | None
    remaining: Decimal


def consume(lots: Sequence[Lot], amount: Decimal) -> tuple[list[tuple[int, Decimal]], list[Lot], Decimal]:
    """Take `amount` from `lots`, which are in order of expiry.

    Answers what each lot gives as (lot id, amount), the lots as they are left, and what the lots did not cover.
    """
    uses: list[tuple[int, Decimal]] = []
    left: list[Lot] = []
    for lot in lots:
        taken = min(lot.remaining, amount)
        if taken:
            uses.append((lot.ledger_lot_id, taken))
            amount -= taken
        if lot.remaining > taken:
            left.append(replace(lot, remaining=lot.remaining - taken))
    return uses, left, amount


def in_order_of_expiry(lot: Lot) -> tuple[bool, float, int]:
    """The sort key of the order in which lots are spent: soonest first, never last, then oldest."""
    return (lot.expires_at is None, lot.expires_at.timestamp() if lot.expires_at else 0.0, lot.ledger_lot_id)
