"""Lots: the value of each mint, what is left of it, and when it expires; the lots that expire first are spent first.

The session decides by balances and records how lots move; an `Allocator` then determines the lots, move by move.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from itertools import count

ZERO = Decimal(0)

# Temporary ids of new lots begin here: above all real ids, so that older lots are spent first.
FIRST_NEW_LOT = 2**62


@dataclass(frozen=True, slots=True)
class Lot:
    """A lot of a wallet; `expires_at` None is never. `expired` is the amount that was left when it expired.

    If the whole balance expires because it is idle, the lot is kept until `kept_until`.
    """

    ledger_lot_id: int
    wallet_id: int
    ledger_account_id: int
    ledger_transaction_id: int
    expires_at: datetime | None
    amount: Decimal
    remaining: Decimal
    expired: Decimal = ZERO
    kept_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class LotUse:
    """An amount that a transaction took from a lot."""

    ledger_lot_id: int
    amount: Decimal
    expires_at: datetime | None = None
    kept_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class NewLot:
    """Creation of a lot, which is kept until `kept_until` if the whole balance expires because it is idle.

    If it `replaces` an expired lot, whose id this is, it belongs to the transaction that created the expired lot.
    """

    wallet_id: int
    ledger_account_id: int
    amount: Decimal
    expires_at: datetime | None
    kept_until: datetime | None = None
    replaces: int | None = None


@dataclass(frozen=True, slots=True)
class TakeLots:
    """Lots give `amount`: those of `first_transaction_id` first, then those with `preferred` ids, then by expiry.

    `exact_uses` has the lots and their amounts instead. `is_newest`: only the wallet's newest lot gives. `expires`: the
    amount expires.
    """

    wallet_id: int
    ledger_account_id: int
    amount: Decimal
    first_transaction_id: int | None = None
    exact_uses: tuple[LotUse, ...] = ()
    is_newest: bool = False
    preferred: frozenset[int] = frozenset()
    expires: bool = False


@dataclass(frozen=True, slots=True)
class MoveLots:
    """Lots of one wallet give `amount`; `to_lots` of it become lots of another wallet with the same expiry."""

    from_wallet_id: int
    to_wallet_id: int
    ledger_account_id: int
    amount: Decimal
    to_lots: Decimal


@dataclass(frozen=True, slots=True)
class RestoreLots:
    """The uses of a reverted transaction go back to their lots (`returned`), or become uses of the revert (`spent`).

    `spent` uses repay debt or become new lots. A new lot of `extra` returns what the reverted transaction took from an
    overdraft. `unexpires`: the reverted transaction is an expiry. If a transaction is reverted in part, its id is
    `partly_reverted_id`, and `kept` are its remaining uses.
    """

    wallet_id: int
    ledger_account_id: int
    returned: tuple[LotUse, ...]
    spent: tuple[LotUse, ...] = ()
    extra: Decimal = ZERO
    expires_at: datetime | None = None
    unexpires: bool = False
    partly_reverted_id: int | None = None
    kept: tuple[LotUse, ...] = ()


@dataclass(frozen=True, slots=True)
class SettleLots:
    """A captured transaction keeps the uses `kept` of lots that it had reserved, and gives back the `released` ones.

    `to_lots` of the kept amount become lots of the wallet `to_wallet_id`, which is None for a burn.
    """

    ledger_transaction_id: int
    wallet_id: int
    ledger_account_id: int
    kept: tuple[LotUse, ...]
    released: tuple[LotUse, ...]
    to_wallet_id: int | None
    to_lots: Decimal


@dataclass(frozen=True, slots=True)
class ChangeExpiry(ABC):
    """The lots of a balance get another expiry."""

    wallet_id: int
    ledger_account_id: int

    @abstractmethod
    def of_lot(self, lot: Lot) -> Lot | None:
        """The changed lot; None if it does not change."""


LotMove = NewLot | TakeLots | MoveLots | RestoreLots | SettleLots | ChangeExpiry


def split_uses(uses: Iterable[LotUse], amount: Decimal) -> tuple[tuple[LotUse, ...], tuple[LotUse, ...]]:
    """Split uses into the first ones up to `amount` in total, and the rest; a use across the border is divided."""
    first: list[LotUse] = []
    rest: list[LotUse] = []
    for use in uses:
        part = min(use.amount, amount)
        if part:
            first.append(replace(use, amount=part))
        if use.amount > part:
            rest.append(replace(use, amount=use.amount - part))
        amount -= part
    return tuple(first), tuple(rest)


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
            self._change_remaining(use.ledger_lot_id, -use.amount, use.amount if move.expires else ZERO)
            self._add_use(ledger_transaction_id, use)
        return uses

    def _candidates(self, move: TakeLots) -> Sequence[Lot]:
        """The lots from which a move may take, in the order in which it takes from them."""
        ids = self._ids_by_pair.get((move.wallet_id, move.ledger_account_id), set())
        if move.is_newest:
            return [self._lots[max(ids)]]
        lots = [self._lots[lot_id] for lot_id in ids if self._lots[lot_id].remaining]
        lots.sort(
            key=lambda lot: (
                lot.ledger_transaction_id != move.first_transaction_id,
                lot.ledger_lot_id not in move.preferred,
                *order_of_spending(lot),
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
        """Create lots from the pieces that expire last, `amount` in total; the others repay the receiver's debt."""
        total = sum((piece.amount for piece in pieces), ZERO)
        _, given_uses = split_uses(pieces, total - amount)
        for piece in given_uses:
            lot = NewLot(wallet_id, ledger_account_id, piece.amount, piece.expires_at, piece.kept_until)
            self._add_lot(ledger_transaction_id, lot)

    def _restore(self, ledger_transaction_id: int, move: RestoreLots) -> None:
        """Apply the revert `ledger_transaction_id` of a transaction that used lots."""
        for use in (*move.returned, *move.spent):
            self._change_remaining(use.ledger_lot_id, ZERO, -use.amount if move.unexpires else ZERO)
        for use in move.returned:
            self._change_remaining(use.ledger_lot_id, use.amount)
        for use in move.spent:
            self._add_use(ledger_transaction_id, use)
        if move.partly_reverted_id is not None:
            self._lower_uses(move.partly_reverted_id, (*move.returned, *move.spent), move.kept)
        if move.extra:
            lot = NewLot(move.wallet_id, move.ledger_account_id, move.extra, move.expires_at)
            self._add_lot(ledger_transaction_id, lot)

    def _settle(self, move: SettleLots) -> None:
        """Apply a capture: return released amounts to their lots; give the receiver its part of the kept amounts."""
        for use in move.released:
            self._change_remaining(use.ledger_lot_id, use.amount)
        self._lower_uses(move.ledger_transaction_id, move.released, move.kept)
        if move.to_wallet_id is not None:
            self._give(move.ledger_transaction_id, move.to_wallet_id, move.ledger_account_id, move.kept, move.to_lots)

    def _change_expiry(self, ledger_transaction_id: int, change: ChangeExpiry) -> None:
        """Change the lots of a balance, and record the changed ones as extended by the transaction."""
        for lot_id in sorted(self._ids_by_pair.get((change.wallet_id, change.ledger_account_id), ())):
            lot = change.of_lot(self._lots[lot_id])
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

    def _lower_uses(
        self, ledger_transaction_id: int, ended_uses: Iterable[LotUse], remaining_uses: Iterable[LotUse]
    ) -> None:
        """Lower a stored transaction's use of each lot in `ended_uses` to its use in `remaining_uses`, or to zero."""
        amounts_left = {use.ledger_lot_id: use.amount for use in remaining_uses}
        for use in ended_uses:
            self.allocation.changed_uses[ledger_transaction_id, use.ledger_lot_id] = amounts_left.get(
                use.ledger_lot_id, ZERO
            )

    def _add_use(self, ledger_transaction_id: int, use: LotUse) -> None:
        """Add to the amount that the transaction has taken from a lot."""
        key = (ledger_transaction_id, use.ledger_lot_id)
        self.allocation.uses[key] = self.allocation.uses.get(key, ZERO) + use.amount


def order_of_spending(lot: Lot) -> tuple[bool, float, int]:
    """The sort key of the order of spending: soonest to expire first, never last, then oldest."""
    return (lot.expires_at is None, lot.expires_at.timestamp() if lot.expires_at else 0.0, lot.ledger_lot_id)


@dataclass(frozen=True, slots=True)
class ArrivedMint:
    """A mint that has become available, but is not posted yet; `earned` of its points count as earned."""

    available_at: datetime
    amount: Decimal
    expires_at: datetime | None
    earned: Decimal

    def amount_after_debt(self, debt: Decimal, now: datetime) -> Decimal:
        """The amount that the mint adds to a balance with a debt, which it repays first; zero if it has expired."""
        has_expired = self.expires_at is not None and self.expires_at <= now
        return ZERO if has_expired else max(ZERO, self.amount - debt)


@dataclass(frozen=True, slots=True)
class KeptLots:
    """An amount that an idle balance keeps until a moment."""

    kept_until: datetime
    amount: Decimal


def end_of_lot(
    expires_at: datetime | None, end: datetime | None, kept_until: datetime | None = None
) -> datetime | None:
    """When a lot expires: at its own date `expires_at`, or before it when the idle balance expires at `end`.

    The lot is kept until `kept_until`, if that is later than `end`. None is never.
    """
    if end is None:
        return expires_at
    end = end if kept_until is None else max(end, kept_until)
    return end if expires_at is None else min(end, expires_at)


def unexpired_balance(
    current_balance: Decimal,
    pending_debit: Decimal,
    expired_lots: Decimal,
    *,
    end: datetime | None,
    now: datetime,
    kept_lots: Iterable[KeptLots] = (),
) -> Decimal:
    """The unexpired part of a stored balance at `now`; the expiry of lots worth `expired_lots` is not posted yet.

    `end` is when the whole balance without the `kept_lots` expires by an idle policy, None is never. Amounts
    held by pending transactions (`pending_debit`) do not expire, unless the hold has ended.
    """
    if end is not None and end <= now:
        return pending_debit + sum((lots.amount for lots in kept_lots if lots.kept_until > now), ZERO)
    return current_balance - expired_lots
