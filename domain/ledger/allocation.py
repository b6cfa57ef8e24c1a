"""Determines which lots change by the moves of a unit of work; the lots that expire first are spent first.

The session decides by balances and records how lots move; an `Allocator` then determines the lots, move by move.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import count

from domain.ledger.clawbacks import Clawback, exchange_uses
from domain.ledger.lots import (
    ZERO,
    ChangedUse,
    ChangeExpiry,
    Lot,
    LotMove,
    LotUse,
    MoveLots,
    NewLot,
    RestoreLots,
    SettleLots,
    TakeLots,
    changes_of_uses,
    order_of_expiry,
    split_uses,
)

# Temporary ids of new lots begin here: above all real ids, so that older lots are spent first.
FIRST_NEW_LOT = 2**62


@dataclass(slots=True)
class Allocation:
    """The result for lots: new lots by temporary id, changed lots by id, and uses by (transaction id, lot id)."""

    new: dict[int, Lot] = field(default_factory=dict)
    changed: dict[int, Lot] = field(default_factory=dict)
    uses: dict[tuple[int, int], Decimal] = field(default_factory=dict)
    changed_uses: dict[tuple[int, int], Decimal] = field(default_factory=dict)
    # Lots whose expiry has changed, by transactions.
    extended: dict[int, list[Lot]] = field(default_factory=dict)


class LotsMissing(RuntimeError):
    """The lots of a wallet do not cover its balance; no sequence of steps may lead to this."""


class Allocator:
    """Applies the moves of a unit of work to the lots that were loaded for it."""

    def __init__(self, lots: Iterable[Lot]) -> None:
        self._lots = {lot.ledger_lot_id: lot for lot in lots}
        self._ids_by_pair: dict[tuple[int, int], set[int]] = {}
        for lot in self._lots.values():
            self._ids_by_pair.setdefault((lot.wallet_id, lot.ledger_account_id), set()).add(lot.ledger_lot_id)
        self._new_ids = count(FIRST_NEW_LOT)
        # By balance (wallet and account): the clawbacks of this unit of work, by transaction id.
        self._clawbacks: dict[tuple[int, int], dict[int, Clawback]] = {}
        self.allocation = Allocation()

    def apply(self, ledger_transaction_id: int, move: LotMove) -> None:
        """Apply one move of a transaction; raises LotsMissing."""
        if isinstance(move, NewLot):
            creating_transaction_id = (
                ledger_transaction_id if move.replaces is None else self._lots[move.replaces].ledger_transaction_id
            )
            self._add_lot(creating_transaction_id, move)
        elif isinstance(move, TakeLots):
            self._take(ledger_transaction_id, move)
        elif isinstance(move, MoveLots):
            lots_of_sender = TakeLots(move.from_wallet_id, move.ledger_account_id, move.amount)
            uses = self._take(ledger_transaction_id, lots_of_sender)
            self._give(ledger_transaction_id, move.to_wallet_id, move.ledger_account_id, uses, move.to_lots)
        elif isinstance(move, RestoreLots):
            self._restore(ledger_transaction_id, move)
        elif isinstance(move, ChangeExpiry):
            self._change_expiry(ledger_transaction_id, move)
        else:
            self._settle(move)

    def _take(self, ledger_transaction_id: int, move: TakeLots) -> tuple[LotUse, ...]:
        """Take the amount of a move from lots; return the uses of lots."""
        if move.exact_uses:
            uses = move.exact_uses
        else:
            possible_uses = [
                LotUse(lot.ledger_lot_id, lot.remaining, lot.expires_at, lot.kept_until)
                for lot in self._candidates(move)
            ]
            uses, _ = split_uses(possible_uses, move.amount)
        if sum((use.amount for use in uses), ZERO) != move.amount:
            raise LotsMissing(f"wallet {move.wallet_id}, account {move.ledger_account_id}: lots do not cover a debit")
        for use in uses:
            self._change_remaining(use.ledger_lot_id, -use.amount, use.amount if move.is_expiry else ZERO)
            self._add_use(ledger_transaction_id, use)
        is_clawback = move.first_transaction_id is not None and not move.is_expiry
        if is_clawback:
            self._note_clawback(ledger_transaction_id, move, uses)
        return uses

    def _note_clawback(self, ledger_transaction_id: int, move: TakeLots, uses: tuple[LotUse, ...]) -> None:
        """Record that a move has clawed back points of `first_transaction_id`, by taking these amounts from lots."""
        pair = (move.wallet_id, move.ledger_account_id)
        own_lot_ids = frozenset(
            lot_id
            for lot_id in self._ids_by_pair.get(pair, ())
            if self._lots[lot_id].ledger_transaction_id == move.first_transaction_id
        )
        clawback = Clawback(ledger_transaction_id, own_lot_ids, uses)
        self._clawbacks.setdefault(pair, {})[ledger_transaction_id] = clawback

    def _candidates(self, move: TakeLots) -> Sequence[Lot]:
        """The lots from which a move may take, in the order in which it takes from them."""
        ids = self._ids_by_pair.get((move.wallet_id, move.ledger_account_id), set())
        if move.from_newest_lot:
            return [self._lots[max(ids)]]
        lots = [self._lots[lot_id] for lot_id in ids if self._lots[lot_id].remaining]
        lots.sort(
            key=lambda lot: (
                lot.ledger_transaction_id != move.first_transaction_id,
                lot.ledger_lot_id not in move.preferred_lot_ids,
                *order_of_expiry(lot),
            )
        )
        return lots

    def _give(
        self,
        ledger_transaction_id: int,
        wallet_id: int,
        ledger_account_id: int,
        pieces: Sequence[LotUse],
        amount: Decimal,
    ) -> None:
        """Create lots of `amount` in total, from the pieces that expire last; the other pieces repay debt."""
        total = sum((piece.amount for piece in pieces), ZERO)
        _, given_uses = split_uses(pieces, total - amount)
        for piece in given_uses:
            lot = NewLot(wallet_id, ledger_account_id, piece.amount, piece.expires_at, piece.kept_until)
            self._add_lot(ledger_transaction_id, lot)

    def _restore(self, ledger_transaction_id: int, move: RestoreLots) -> None:
        """Apply a revert, whose id is `ledger_transaction_id`, to the lots that the reverted transaction has used."""
        for use in (*move.returned_uses, *move.spent_uses):
            self._change_remaining(use.ledger_lot_id, ZERO, -use.amount if move.reverts_expiry else ZERO)
        returned_lot_ids = frozenset(use.ledger_lot_id for use in move.returned_uses)
        unexchanged_lot_ids = returned_lot_ids if move.reverts_expiry else move.expiring_lot_ids
        self._return((move.wallet_id, move.ledger_account_id), move.returned_uses, unexchanged_lot_ids)
        for use in move.spent_uses:
            self._add_use(ledger_transaction_id, use)
        self._change_uses(move.changed_uses)
        if move.new_lot_amount:
            lot = NewLot(move.wallet_id, move.ledger_account_id, move.new_lot_amount, move.expires_at)
            self._add_lot(ledger_transaction_id, lot)

    def _settle(self, move: SettleLots) -> None:
        """Apply a capture: return released amounts to their lots; give the receiver its part of the kept amounts."""
        self._return((move.wallet_id, move.ledger_account_id), move.released_uses, move.expiring_lot_ids)
        self._change_uses(move.changed_uses)
        if move.to_wallet_id is not None:
            self._give(
                move.ledger_transaction_id, move.to_wallet_id, move.ledger_account_id, move.kept_uses, move.to_lots
            )

    def _return(self, pair: tuple[int, int], uses: Iterable[LotUse], unexchanged_lot_ids: Collection[int]) -> None:
        """Return amounts to lots, after exchanging them with the clawbacks of this unit of work (see `exchange_uses`).

        The lots `unexchanged_lot_ids` get their own amounts back: points that have expired are not clawed back.
        """
        clawbacks = self._clawbacks.get(pair, {})
        returned_uses = [use for use in uses if use.ledger_lot_id in unexchanged_lot_ids]
        exchangeable_uses = (use for use in uses if use.ledger_lot_id not in unexchanged_lot_ids)
        exchanged_uses, changed_clawbacks = exchange_uses(exchangeable_uses, clawbacks.values())
        for clawback in changed_clawbacks:
            transaction_id = clawback.ledger_transaction_id
            for change in changes_of_uses(transaction_id, clawbacks[transaction_id].uses, clawback.uses):
                self.allocation.uses[transaction_id, change.ledger_lot_id] = change.amount
            clawbacks[transaction_id] = clawback
        for use in (*returned_uses, *exchanged_uses):
            self._change_remaining(use.ledger_lot_id, use.amount)

    def _change_expiry(self, ledger_transaction_id: int, change: ChangeExpiry) -> None:
        """Change the lots of a balance, and record the changed ones as extended by the transaction."""
        for lot_id in sorted(self._ids_by_pair.get((change.wallet_id, change.ledger_account_id), ())):
            lot = change.changed_lot(self._lots[lot_id])
            if lot is not None:
                self._store(lot)
                self.allocation.extended.setdefault(ledger_transaction_id, []).append(lot)

    def _add_lot(self, ledger_transaction_id: int, new: NewLot) -> None:
        """Add a lot under a temporary id, with all of its amount left."""
        lot_id = next(self._new_ids)
        lot = Lot(
            lot_id,
            new.wallet_id,
            new.ledger_account_id,
            ledger_transaction_id,
            new.expires_at,
            amount=new.amount,
            remaining=new.amount,
            kept_until=new.kept_until,
        )
        self._lots[lot_id] = self.allocation.new[lot_id] = lot
        self._ids_by_pair.setdefault((new.wallet_id, new.ledger_account_id), set()).add(lot_id)

    def _change_remaining(self, lot_id: int, change: Decimal, expired: Decimal = ZERO) -> None:
        """Add `change` to the remaining amount of a lot, and `expired` to its expired amount."""
        before = self._lots[lot_id]
        self._store(replace(before, remaining=before.remaining + change, expired=before.expired + expired))

    def _store(self, lot: Lot) -> None:
        """Keep a new or changed lot for the later moves, and for writing it."""
        self._lots[lot.ledger_lot_id] = lot
        lots = self.allocation.new if lot.ledger_lot_id in self.allocation.new else self.allocation.changed
        lots[lot.ledger_lot_id] = lot

    def _change_uses(self, changed_uses: Iterable[ChangedUse]) -> None:
        """Record the new uses of stored transactions."""
        for use in changed_uses:
            self.allocation.changed_uses[use.ledger_transaction_id, use.ledger_lot_id] = use.amount

    def _add_use(self, ledger_transaction_id: int, use: LotUse) -> None:
        """Add to the amount that the transaction has taken from a lot."""
        key = (ledger_transaction_id, use.ledger_lot_id)
        self.allocation.uses[key] = self.allocation.uses.get(key, ZERO) + use.amount
