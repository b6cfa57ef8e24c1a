"""Writes the lots that steps of the session create and use."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection

from domain.ledger.allocation import Allocation, Allocator
from domain.ledger.lots import (
    ChangeExpiry,
    Lot,
    LotMove,
    MoveLots,
    NewLot,
    RestoreLots,
    SettleLots,
    TakeLots,
)
from domain.ledger.postings import BalanceKey, Step
from persistence.connections import defer, fetch_rows
from persistence.prepared_statements import Prepared
from persistence.rows import Statement, additions, as_json, change_all, recordset_of, reserve_ids, update_by_id
from persistence.tables.ledger import ledger_lot_uses, ledger_lots

_LOT_COLUMNS = ", ".join(f"l.{field.name}" for field in fields(Lot))

_SPENDABLE_LOTS = Prepared(f"""
SELECT {_LOT_COLUMNS}
FROM jsonb_to_recordset(%s::jsonb) AS p(wallet_id bigint, ledger_account_id bigint, expired_at timestamptz)
CROSS JOIN LATERAL (
    SELECT * FROM ledger_lots
    WHERE organization_id = %s AND wallet_id = p.wallet_id AND ledger_account_id = p.ledger_account_id AND remaining > 0
        AND (p.expired_at IS NULL OR expires_at IS NULL OR expires_at > p.expired_at)
    ORDER BY expires_at NULLS LAST, ledger_lot_id LIMIT %s
) l
""")

_NAMED_LOTS = Prepared(f"""
SELECT {_LOT_COLUMNS} FROM ledger_lots l
WHERE l.organization_id = %s AND l.ledger_lot_id = ANY(%s::bigint[])
UNION ALL
SELECT {_LOT_COLUMNS} FROM ledger_lots l
WHERE l.organization_id = %s AND l.ledger_transaction_id = ANY(%s::bigint[]) AND l.remaining > 0
""")

_WRITE_CHANGED_LOTS = update_by_id(ledger_lots, "ledger_lot_id", "remaining", "expired")
_WRITE_EXTENDED_LOTS = update_by_id(ledger_lots, "ledger_lot_id", "expires_at", "kept_until")

_REMOVE_USES = """
DELETE FROM ledger_lot_uses u USING (
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS g(ledger_transaction_id bigint, ledger_lot_id bigint) LIMIT %s
) AS x
WHERE u.organization_id = %s AND u.ledger_transaction_id = x.ledger_transaction_id
    AND u.ledger_lot_id = x.ledger_lot_id
"""

# How many lots of each balance are read first.
_FIRST_LIMIT = 64
# An amount that lots never cover, so that all of them are read.
_ALL = Decimal("Infinity")


def write_lots(
    db: Connection,
    organization_id: int,
    steps: Sequence[tuple[int, Step]],
    at: datetime,
    partly_expired: Collection[BalanceKey] = (),
) -> list[Statement]:
    """Determine the lots that the steps create and use, step by step, and write the changes of stored lots.

    Each step has the id of its transaction. In `partly_expired` balances, lots that have expired by `at` may be left:
    only expiries use these. Returns the statements that add new lots and uses, to be joined with the statements that
    add the transactions.
    """
    moves = [(transaction_id, move) for transaction_id, step in steps for move in step.lot_moves]
    if not moves:
        return []
    allocation = _allocate(db, organization_id, moves, dict.fromkeys(partly_expired, at))
    # New lots get their ids from the table, which saves a statement, unless uses refer to new lots.
    need_ids = bool(allocation.uses) and any(lot_id in allocation.new for _, lot_id in allocation.uses)
    # By the temporary ids of new lots.
    ids: dict[int, int] = {}
    if need_ids:
        new_ids = reserve_ids(db, ledger_lots=len(allocation.new))["ledger_lots"]
        ids = dict(zip(allocation.new, new_ids, strict=True))
    statements = additions(
        ledger_lots,
        [
            {
                "organization_id": organization_id,
                **({"ledger_lot_id": ids[lot.ledger_lot_id]} if need_ids else {}),
                "wallet_id": lot.wallet_id,
                "ledger_account_id": lot.ledger_account_id,
                "ledger_transaction_id": lot.ledger_transaction_id,
                "amount": lot.amount,
                "remaining": lot.remaining,
                "expired": lot.expired,
                "expires_at": lot.expires_at,
                "kept_until": lot.kept_until,
                "created_at": at,
            }
            for lot in allocation.new.values()
        ],
    )
    if allocation.changed:
        changed_rows = [
            {"ledger_lot_id": lot_id, "remaining": lot.remaining, "expired": lot.expired}
            for lot_id, lot in allocation.changed.items()
        ]
        extended_rows = [
            {"ledger_lot_id": lot.ledger_lot_id, "expires_at": lot.expires_at, "kept_until": lot.kept_until}
            for lots in allocation.extended.values()
            for lot in lots
            if lot.ledger_lot_id in allocation.changed
        ]
        change_all(db, _WRITE_CHANGED_LOTS, organization_id, changed_rows)
        change_all(db, _WRITE_EXTENDED_LOTS, organization_id, extended_rows)
    if allocation.uses or allocation.changed_uses:
        statements += _write_uses(db, organization_id, allocation, ids)
    return statements


def find_extended_lots(db: Connection, organization_id: int, steps: Sequence[Step]) -> list[list[Lot]]:
    """The lots that the steps will extend when they are written; one list for each step."""
    moves = [(position, move) for position, step in enumerate(steps) for move in step.lot_moves]
    extended = _allocate(db, organization_id, moves, expired_at={}).extended
    return [extended.get(position, []) for position in range(len(steps))]


def _allocate(
    db: Connection,
    organization_id: int,
    moves: Sequence[tuple[int, LotMove]],
    expired_at: Mapping[BalanceKey, datetime],
) -> Allocation:
    """Apply the moves of transactions to their lots; see `_spendable_lots` for `expired_at`."""
    moves_of_lots = [move for _, move in moves if not isinstance(move, NewLot)]
    allocator = Allocator(_lots_for(db, organization_id, moves_of_lots, expired_at))
    for transaction_id, move in moves:
        allocator.apply(transaction_id, move)
    return allocator.allocation


def _write_uses(
    db: Connection, organization_id: int, allocation: Allocation, ids: Mapping[int, int]
) -> list[Statement]:
    """Remove the stored uses that change; return the statements that add the changed and the new uses.

    `ids` are the ids of new lots by their temporary ids.
    """
    if allocation.changed_uses:
        ended_uses = [
            {"ledger_transaction_id": transaction_id, "ledger_lot_id": lot_id}
            for transaction_id, lot_id in allocation.changed_uses
        ]
        defer(db, _REMOVE_USES, (*recordset_of(ended_uses), organization_id))
    uses = {**allocation.changed_uses, **allocation.uses}
    return additions(
        ledger_lot_uses,
        [
            {
                "organization_id": organization_id,
                "ledger_transaction_id": transaction_id,
                "ledger_lot_id": ids.get(lot_id, lot_id),
                "amount": amount,
            }
            for (transaction_id, lot_id), amount in uses.items()
            if amount
        ],
    )


def _lots_for(
    db: Connection, organization_id: int, moves: Sequence[LotMove], expired_at: Mapping[BalanceKey, datetime]
) -> list[Lot]:
    """The stored lots that the moves may change: enough spendable lots of each balance, and lots that moves name."""
    if not moves:
        return []
    amounts: dict[BalanceKey, Decimal] = {}
    lot_ids: set[int] = set()
    first_transaction_ids: set[int] = set()
    for move in moves:
        if isinstance(move, TakeLots | MoveLots):
            wallet_id = move.wallet_id if isinstance(move, TakeLots) else move.from_wallet_id
            pair = (wallet_id, move.ledger_account_id)
            amounts[pair] = amounts.get(pair, Decimal(0)) + move.amount
            if isinstance(move, TakeLots):
                lot_ids.update(use.ledger_lot_id for use in move.exact_uses)
                if move.first_transaction_id is not None:
                    first_transaction_ids.add(move.first_transaction_id)
        elif isinstance(move, ChangeExpiry):
            amounts[move.wallet_id, move.ledger_account_id] = _ALL
        elif isinstance(move, RestoreLots):
            lot_ids.update(use.ledger_lot_id for use in (*move.returned_uses, *move.spent_uses))
        elif isinstance(move, SettleLots):
            lot_ids.update(use.ledger_lot_id for use in (*move.kept_uses, *move.released_uses))
    by_id = {lot.ledger_lot_id: lot for lot in _spendable_lots(db, organization_id, amounts, expired_at)}
    if lot_ids or first_transaction_ids:
        values = (organization_id, list(lot_ids), organization_id, list(first_transaction_ids))
        named_lots = [Lot(*row) for row in fetch_rows(db, _NAMED_LOTS, values)]
        by_id.update({lot.ledger_lot_id: lot for lot in named_lots})
    return list(by_id.values())


def _spendable_lots(
    db: Connection,
    organization_id: int,
    amounts: Mapping[BalanceKey, Decimal],
    expired_at: Mapping[BalanceKey, datetime],
) -> list[Lot]:
    """The first spendable lots of each balance, enough to cover its amount, or all its lots if they do not cover it.

    Balances whose lots do not cover the amount are read again, with eight times as many lots. Of balances in
    `expired_at`, lots that have expired at this moment are left out.
    """
    by_pair: dict[BalanceKey, list[Lot]] = {}
    uncovered_amounts, limit = dict(amounts), _FIRST_LIMIT
    while uncovered_amounts:
        by_pair.update({pair: [] for pair in uncovered_amounts})
        pair_rows = as_pairs(uncovered_amounts)
        for pair, pair_row in zip(uncovered_amounts, pair_rows, strict=True):
            if pair in expired_at:
                pair_row["expired_at"] = expired_at[pair]
        for row in fetch_rows(db, _SPENDABLE_LOTS, (as_json(pair_rows), organization_id, limit)):
            lot = Lot(*row)
            by_pair[lot.wallet_id, lot.ledger_account_id].append(lot)
        # Fewer lots than the limit are all lots of the balance.
        limited_pairs = [pair for pair in uncovered_amounts if len(by_pair[pair]) == limit]
        covered_amounts = {pair: sum(lot.remaining for lot in by_pair[pair]) for pair in limited_pairs}
        uncovered_amounts = {pair: amounts[pair] for pair in limited_pairs if covered_amounts[pair] < amounts[pair]}
        limit *= 8
    return [lot for lots in by_pair.values() for lot in lots]


def as_pairs(pairs: Iterable[BalanceKey]) -> list[dict[str, Any]]:
    """Pairs of wallet and account as rows for a statement."""
    return [{"wallet_id": wallet_id, "ledger_account_id": account_id} for wallet_id, account_id in pairs]
