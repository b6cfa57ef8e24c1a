"""Lots: the value of each mint, what is left of it, and when it expires; and the moves by which lots change."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Lot:
    """A lot of a wallet; `expires_at` None means never. `expired` is the part of `amount` that has expired.

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
class ChangedUse:
    """The `amount` that a stored transaction uses of a lot from now on."""

    ledger_transaction_id: int
    ledger_lot_id: int
    amount: Decimal


@dataclass(frozen=True, slots=True)
class NewLot:
    """Creation of a lot, which is kept until `kept_until` if the whole balance expires because it is idle.

    `replaces` is the id of an expired lot; the new lot then belongs to the transaction that created the expired one.
    """

    wallet_id: int
    ledger_account_id: int
    amount: Decimal
    expires_at: datetime | None
    kept_until: datetime | None = None
    replaces: int | None = None


@dataclass(frozen=True, slots=True)
class TakeLots:
    """Take `amount` from lots: first from those of `first_transaction_id`, then of `preferred_lot_ids`, then by expiry.

    `first_transaction_id` is the transaction whose points are clawed back or, with `is_expiry`, expire. If there are
    `exact_uses`, exactly these are taken. `from_newest_lot`: only from the newest lot of the wallet.
    """

    wallet_id: int
    ledger_account_id: int
    amount: Decimal
    first_transaction_id: int | None = None
    exact_uses: tuple[LotUse, ...] = ()
    from_newest_lot: bool = False
    preferred_lot_ids: frozenset[int] = frozenset()
    is_expiry: bool = False


@dataclass(frozen=True, slots=True)
class MoveLots:
    """Take `amount` from lots of one wallet; `to_lots` of it become lots of another wallet with the same expiry.

    The rest repays debt of the other wallet.
    """

    from_wallet_id: int
    to_wallet_id: int
    ledger_account_id: int
    amount: Decimal
    to_lots: Decimal


@dataclass(frozen=True, slots=True)
class RestoreLots:
    """Undo the uses of lots by a reverted transaction.

    `returned_uses` go back to their lots. `spent_uses` become uses of the revert: they repay debt or become new lots.
    A new lot of `new_lot_amount`, which expires at `expires_at`, returns what the reverted transaction took from an
    overdraft. `reverts_expiry`: the reverted transaction is an expiry. `changed_uses` are the changed uses of other
    stored transactions, and of a transaction that is reverted in part. Points of the lots `expiring_lot_ids` expire as
    soon as they have returned.
    """

    wallet_id: int
    ledger_account_id: int
    returned_uses: tuple[LotUse, ...]
    spent_uses: tuple[LotUse, ...] = ()
    new_lot_amount: Decimal = ZERO
    expires_at: datetime | None = None
    reverts_expiry: bool = False
    changed_uses: tuple[ChangedUse, ...] = ()
    expiring_lot_ids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class SettleLots:
    """End the reservation of lots by a captured transaction: it keeps `kept_uses`, and `released_uses` return to lots.

    `to_lots` of the kept amount become lots of the wallet `to_wallet_id`, which is None for a burn. `changed_uses` are
    the changed uses of stored transactions. Points of the lots `expiring_lot_ids` expire as soon as they have returned.
    """

    ledger_transaction_id: int
    wallet_id: int
    ledger_account_id: int
    kept_uses: tuple[LotUse, ...]
    released_uses: tuple[LotUse, ...]
    changed_uses: tuple[ChangedUse, ...]
    to_wallet_id: int | None
    to_lots: Decimal
    expiring_lot_ids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ChangeExpiry(ABC):
    """Change the expiry of the lots of a balance."""

    wallet_id: int
    ledger_account_id: int

    @abstractmethod
    def changed_lot(self, lot: Lot) -> Lot | None:
        """The changed lot; None if it does not change."""


LotMove = NewLot | TakeLots | MoveLots | RestoreLots | SettleLots | ChangeExpiry
"""One change of lots by a transaction, which can have several."""


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


def changes_of_uses(
    ledger_transaction_id: int, uses: Iterable[LotUse], new_uses: Iterable[LotUse]
) -> tuple[ChangedUse, ...]:
    """The changes that replace the `uses` of a stored transaction by `new_uses`."""
    amounts = {use.ledger_lot_id: use.amount for use in uses}
    new_amounts = dict.fromkeys(amounts, ZERO) | {use.ledger_lot_id: use.amount for use in new_uses}
    return tuple(
        ChangedUse(ledger_transaction_id, lot_id, amount)
        for lot_id, amount in new_amounts.items()
        if amount != amounts.get(lot_id, ZERO)
    )


def order_of_expiry(lot: Lot | LotUse) -> tuple[bool, float, int]:
    """The sort key of the order in which lots are spent: soonest to expire first, never last, then oldest."""
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

    The lot is kept until `kept_until`, if that is later than `end`. None means never.
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
    """The unexpired part of a stored balance at `now`; `expired_lots` is the sum of expiries that are not posted yet.

    `end` is when the whole balance without the `kept_lots` expires by an idle policy, None means never. Amounts
    held by pending transactions (`pending_debit`) do not expire, unless the hold has ended.
    """
    if end is not None and end <= now:
        return pending_debit + sum((lots.amount for lots in kept_lots if lots.kept_until > now), ZERO)
    return current_balance - expired_lots
