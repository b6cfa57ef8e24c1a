"""Clawbacks of spent points: the lots that gave points in their place, and how these get their points back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from domain.ledger.lots import LotUse, order_of_expiry


@dataclass(frozen=True, slots=True)
class Clawback:
    """The `uses` of lots by a revert or return, which took the points of an earlier transaction from a wallet.

    That transaction had created the lots `own_lot_ids`. Other lots gave points in place of its spent points.
    """

    ledger_transaction_id: int
    own_lot_ids: frozenset[int]
    uses: tuple[LotUse, ...]


def exchange_uses(
    returned_uses: Iterable[LotUse], clawbacks: Iterable[Clawback]
) -> tuple[tuple[LotUse, ...], list[Clawback]]:
    """Let clawbacks take the returned points of their own lots, so that other lots get their points back.

    Example: the 10 points of a mint were spent. Then the mint was reverted, which took 10 points of another lot. Now
    the 10 spent points return. The revert of the mint takes these instead, and the other lot gets its points back.

    The last clawback is exchanged first, and in it the use of the lot that expires last. Returns the uses that return
    to lots instead of `returned_uses`, and the changed clawbacks. The time grows with the number of uses.
    """
    latest_first = sorted(clawbacks, key=lambda clawback: clawback.ledger_transaction_id, reverse=True)
    exchanges_by_lot: dict[int, list[_Exchange]] = {}
    for exchange in map(_Exchange, latest_first):
        for lot_id in exchange.clawback.own_lot_ids:
            exchanges_by_lot.setdefault(lot_id, []).append(exchange)
    uses: list[LotUse] = []
    queue = list(returned_uses)
    changed_exchanges: dict[int, _Exchange] = {}
    while queue:
        use = queue.pop()
        for exchange in exchanges_by_lot.get(use.ledger_lot_id, ()):
            other_uses = exchange.take(use)
            if other_uses:
                changed_exchanges[exchange.clawback.ledger_transaction_id] = exchange
                # Points of the other lots may have been clawed back, too: search the clawbacks of these lots.
                queue += other_uses
                use = replace(use, amount=use.amount - sum(other_use.amount for other_use in other_uses))
        uses.append(use)
    return merge_uses(uses), [exchange.result() for _, exchange in sorted(changed_exchanges.items())]


class _Exchange:
    """The exchange of a clawback: `other_uses` are its remaining uses of other lots, the last to expire at the end."""

    def __init__(self, clawback: Clawback) -> None:
        self.clawback = clawback
        self.own_uses = [use for use in clawback.uses if use.ledger_lot_id in clawback.own_lot_ids]
        other_uses = (use for use in clawback.uses if use.ledger_lot_id not in clawback.own_lot_ids)
        self.other_uses = sorted(other_uses, key=order_of_expiry)

    def take(self, returned_use: LotUse) -> list[LotUse]:
        """Claw back points that return to a lot of the reverted mint, in place of points of other lots.

        Returns the uses of the other lots that this undoes.
        """
        remaining_amount, exchanged_uses = returned_use.amount, []
        while remaining_amount and self.other_uses:
            last_use = self.other_uses.pop()
            amount = min(last_use.amount, remaining_amount)
            if last_use.amount > amount:
                self.other_uses.append(replace(last_use, amount=last_use.amount - amount))
            exchanged_uses.append(replace(last_use, amount=amount))
            remaining_amount -= amount
        self.own_uses.append(replace(returned_use, amount=returned_use.amount - remaining_amount))
        return exchanged_uses

    def result(self) -> Clawback:
        """The clawback after the exchange."""
        return replace(self.clawback, uses=merge_uses((*self.own_uses, *self.other_uses)))


def merge_uses(uses: Iterable[LotUse]) -> tuple[LotUse, ...]:
    """One use of each lot with the sum of its amounts, in the order of expiry; without uses of nothing."""
    by_lot: dict[int, LotUse] = {}
    for use in uses:
        before = by_lot.get(use.ledger_lot_id)
        by_lot[use.ledger_lot_id] = use if before is None else replace(before, amount=before.amount + use.amount)
    return tuple(sorted((use for use in by_lot.values() if use.amount), key=order_of_expiry))
