"""Clawbacks of spent points: the lots that gave points in their place, and how these get their points back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from domain.ledger.lots import LotUse, order_of_expiry


@dataclass(frozen=True, slots=True)
class Clawback:
    """The `uses` of lots by a stored revert or return, which took the points of an earlier transaction from a wallet.

    That transaction had created the lots `own_lot_ids`. Other lots gave points in place of its spent points.
    """

    ledger_transaction_id: int
    own_lot_ids: frozenset[int]
    uses: tuple[LotUse, ...]

    def exchange(self, returned_use: LotUse) -> tuple[Clawback, LotUse] | None:
        """Take the points that return to an own lot, instead of points of the other lot that expires last.

        Returns the clawback after that, and what the other lot gets back; None if there is nothing to exchange.
        """
        other_uses = [use for use in self.uses if use.ledger_lot_id not in self.own_lot_ids]
        if returned_use.ledger_lot_id not in self.own_lot_ids or not other_uses:
            return None
        last_use = max(other_uses, key=order_of_expiry)
        amount = min(last_use.amount, returned_use.amount)
        lowered_use = replace(last_use, amount=last_use.amount - amount)
        unchanged_uses = (use for use in self.uses if use is not last_use)
        uses = merge_uses((*unchanged_uses, lowered_use, replace(returned_use, amount=amount)))
        return replace(self, uses=uses), replace(last_use, amount=amount)


def exchange_uses(
    returned_uses: Iterable[LotUse], clawbacks: Iterable[Clawback]
) -> tuple[tuple[LotUse, ...], list[Clawback]]:
    """Exchange uses that return to lots with clawbacks, the last clawback first.

    Returns the uses that return then, and the changed clawbacks.
    """
    by_id = {clawback.ledger_transaction_id: clawback for clawback in clawbacks}
    latest_first = sorted(by_id, reverse=True)
    changed_ids: set[int] = set()
    uses, queue = [], [use for use in returned_uses if use.amount]
    while queue:
        use = queue.pop()
        exchanges = (by_id[transaction_id].exchange(use) for transaction_id in latest_first)
        exchange = next((pair for pair in exchanges if pair is not None), None)
        if exchange is None:
            uses.append(use)
            continue
        clawback, other_use = exchange
        by_id[clawback.ledger_transaction_id] = clawback
        changed_ids.add(clawback.ledger_transaction_id)
        # Points of the other lot may have been clawed back, too.
        queue.append(other_use)
        if use.amount > other_use.amount:
            queue.append(replace(use, amount=use.amount - other_use.amount))
    return merge_uses(uses), [by_id[transaction_id] for transaction_id in sorted(changed_ids)]


def merge_uses(uses: Iterable[LotUse]) -> tuple[LotUse, ...]:
    """One use of each lot with the sum of its amounts, in the order of expiry; without uses of nothing."""
    by_lot: dict[int, LotUse] = {}
    for use in uses:
        before = by_lot.get(use.ledger_lot_id)
        by_lot[use.ledger_lot_id] = use if before is None else replace(before, amount=before.amount + use.amount)
    return tuple(sorted((use for use in by_lot.values() if use.amount), key=order_of_expiry))
