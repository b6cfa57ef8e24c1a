"""Moves of lots for movements of accounts with point tracking; other accounts have no lots."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

from domain.ledger.lots import LotMove, LotUse, MoveLots, NewLot, SettleLots, TakeLots, split_uses
from domain.ledger.postings import ZERO
from domain.ledger.records import LedgerAccount


def taken(
    account: LedgerAccount,
    wallet_id: int,
    amount: Decimal,
    first_of: int | None = None,
    preferred: Iterable[LotUse] = (),
) -> tuple[LotMove, ...]:
    """Lots of the wallet give `amount`, those of the transaction `first_of` first, then the `preferred` ones."""
    if not account.point_tracking_enabled or not amount:
        return ()
    lots = frozenset(use.ledger_lot_id for use in preferred)
    return (TakeLots(wallet_id, account.ledger_account_id, amount, first_of=first_of, preferred=lots),)


def moved(
    account: LedgerAccount, from_wallet_id: int, to_wallet_id: int, amount: Decimal, to_lots: Decimal
) -> tuple[LotMove, ...]:
    """Lots of one wallet give `amount`, of which `to_lots` become lots of the other."""
    if not account.point_tracking_enabled or not amount:
        return ()
    return (MoveLots(from_wallet_id, to_wallet_id, account.ledger_account_id, amount, to_lots),)


def expired_on_arrival(move: LotMove, at: datetime) -> Decimal:
    """The amount of a settled mint or transfer that went into lots that had expired by then."""
    arrived: tuple[LotUse, ...] = ()
    if isinstance(move, NewLot):
        arrived = (LotUse(0, move.amount, move.expires_at),)
    elif isinstance(move, SettleLots) and move.to_wallet_id is not None:
        # Lots are given in this order: the first to expire repaid debt.
        kept = sum((use.amount for use in move.kept), ZERO)
        _, arrived = split_uses(move.kept, kept - move.to_lots)
    return sum((use.amount for use in arrived if use.expires_at is not None and use.expires_at <= at), ZERO)
