"""Finds stored transactions: those to be captured or reverted, and mints that wait for events."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from domain.ledger.availability import ORDER
from domain.ledger.clawbacks import Clawback
from domain.ledger.lots import LotUse
from domain.ledger.postings import StoredTransaction
from domain.ledger.records import MINT, PENDING, REVERT, REVERTED, SETTLED
from persistence.connections import fetch_rows

_STORED_COLUMNS = f"""
SELECT t.ledger_transaction_id, t.ledger_account_id, t.transaction_type, t.status, t.amount, t.from_wallet_id,
    t.to_wallet_id, t.is_expiry, t.fiat_value, t.reversal_ledger_transaction_id, t.external_event_date,
    t.pending_expires_at,
    (SELECT count(*) FROM ledger_entries e WHERE e.organization_id = %(organization_id)s
     AND e.ledger_transaction_id = t.ledger_transaction_id) AS entry_count,
    parts.reverted_amount, parts.released, made.expired, made.lot_ids, coalesce(t.missing, 0) AS missing,
    t.clamped_by_ledger_transaction_id AS clamped_by, t.fiat_currency, coalesce(t.unearned, 0) AS unearned,
    coalesce(t.external_event_date, t.captured_at, t.created_at) AS happened_at, t.held_until,
    t.qualifying_amount AS qualifying, parts.fiat_returned, t.available_at, t.available_on AS awaited,
    t.policy_expires_at, t.created_at
FROM ledger_transactions t
CROSS JOIN LATERAL (
    SELECT coalesce(sum(p.amount) FILTER (WHERE p.status = {SETTLED}), 0) AS reverted_amount,
        coalesce(sum(p.amount) FILTER (WHERE p.status = {REVERTED}), 0) AS released,
        coalesce(sum(p.fiat_value) FILTER (WHERE p.status = {SETTLED}), 0) AS fiat_returned
    FROM ledger_transactions p WHERE p.organization_id = %(organization_id)s
        AND p.reverted_ledger_transaction_id = t.ledger_transaction_id AND p.is_partial
) parts
CROSS JOIN LATERAL (
    SELECT coalesce(sum(l.expired), 0) AS expired, array_agg(l.ledger_lot_id) AS lot_ids
    FROM ledger_lots l WHERE l.organization_id = %(organization_id)s
        AND l.ledger_transaction_id = t.ledger_transaction_id AND t.transaction_type <> {REVERT}
) made
"""

_STORED = f"""{_STORED_COLUMNS}
WHERE t.organization_id = %(organization_id)s AND t.ledger_transaction_id = ANY(%(ids)s)
"""

# The reversal of a debit returns points to a wallet; missing amounts of the wallet's mints are taken from these points.
_MINTS_TO_REPAY = f"""{_STORED_COLUMNS}
WHERE t.organization_id = %(organization_id)s AND t.to_wallet_id = ANY(%(wallet_ids)s) AND t.missing > 0
"""

# The uses of lots by transactions; of each lot, whether points of its transaction were reverted.
_USES = """
SELECT t.reversal_ledger_transaction_id IS NOT NULL OR EXISTS (
        SELECT FROM ledger_transactions p WHERE p.organization_id = %(organization_id)s
            AND p.reverted_ledger_transaction_id = t.ledger_transaction_id AND p.is_partial
    ), u.ledger_transaction_id, u.ledger_lot_id, u.amount, l.expires_at, l.kept_until
FROM ledger_lot_uses u JOIN ledger_lots l USING (organization_id, ledger_lot_id)
JOIN ledger_transactions t ON t.organization_id = %(organization_id)s
    AND t.ledger_transaction_id = l.ledger_transaction_id
WHERE u.organization_id = %(organization_id)s AND u.ledger_transaction_id = ANY(%(ids)s)
ORDER BY u.ledger_transaction_id, l.expires_at NULLS LAST, u.ledger_lot_id
"""

# A clawback may take points of a lot that another clawback took points for. Longer chains are cut, to limit their cost.
_MAX_CLAWBACKS_IN_A_ROW = 20

# Lots, and the uses by the reverts and returns of the transactions that created them, of lots of the same wallet; then
# the same for the lots of these uses, and so on. The row of a lot itself has no using transaction.
_CLAWBACKS = f"""
WITH RECURSIVE uses AS (
    SELECT NULL::bigint AS reverted_id, NULL::bigint AS ledger_transaction_id, l.ledger_lot_id, NULL::numeric AS amount,
        l.expires_at, l.kept_until, l.ledger_transaction_id AS origin_id, l.wallet_id, 0 AS depth
    FROM ledger_lots l WHERE l.organization_id = %(organization_id)s AND l.ledger_lot_id = ANY(%(lot_ids)s)
    UNION
    SELECT t.ledger_transaction_id, r.ledger_transaction_id, u.ledger_lot_id, u.amount,
        l.expires_at, l.kept_until, l.ledger_transaction_id, l.wallet_id, depth + 1
    FROM uses
    JOIN ledger_transactions t ON t.organization_id = %(organization_id)s AND t.ledger_transaction_id = uses.origin_id
    CROSS JOIN LATERAL (
        SELECT t.reversal_ledger_transaction_id AS ledger_transaction_id
        UNION ALL
        SELECT p.ledger_transaction_id FROM ledger_transactions p WHERE p.organization_id = %(organization_id)s
            AND p.reverted_ledger_transaction_id = t.ledger_transaction_id AND p.is_partial
    ) r
    JOIN ledger_lot_uses u ON u.organization_id = %(organization_id)s
        AND u.ledger_transaction_id = r.ledger_transaction_id
    JOIN ledger_lots l ON l.organization_id = %(organization_id)s
        AND l.ledger_lot_id = u.ledger_lot_id AND l.wallet_id = uses.wallet_id
    WHERE depth < {_MAX_CLAWBACKS_IN_A_ROW}
)
SELECT DISTINCT origin_id, reverted_id, ledger_transaction_id, ledger_lot_id, amount, expires_at, kept_until FROM uses
"""

# Mints that wait for an event that has not happened yet.
_AWAITING = f"""
SELECT ledger_transaction_id FROM ledger_transactions
WHERE organization_id = %s AND to_wallet_id = ANY(%s) AND status = {PENDING} AND transaction_type = {MINT}
    AND available_at IS NULL AND available_on IS NOT NULL
"""

# The order of a mint is the order of its event; if this has none, of the event that caused it, and so on.
_ORDERS = """
WITH RECURSIVE events_of AS (
    SELECT t.ledger_transaction_id, e.cause_loyalty_event_id, e.payload #>> '{order,externalId}' AS external_id
    FROM ledger_transactions t JOIN events e USING (organization_id, loyalty_event_id)
    WHERE t.organization_id = %(organization_id)s AND t.ledger_transaction_id = ANY(%(ids)s)
    UNION ALL
    SELECT o.ledger_transaction_id, e.cause_loyalty_event_id, e.payload #>> '{order,externalId}'
    FROM events_of o JOIN events e ON e.organization_id = %(organization_id)s
        AND e.loyalty_event_id = o.cause_loyalty_event_id
    WHERE o.external_id IS NULL
)
SELECT ledger_transaction_id, external_id FROM events_of WHERE external_id IS NOT NULL
"""


def find_stored(db: Connection, organization_id: int, transaction_ids: Collection[int]) -> dict[int, StoredTransaction]:
    """The transactions with these ids, by id; their `uses` of lots are in the order of expiry.

    A debit has the stored mints whose missing amounts its reversal repays, in `mints_to_repay`. Its `clawbacks` are the
    clawbacks of points that the debit had spent: they took other points in place of these.
    """
    if not transaction_ids:
        return {}
    ids = list(transaction_ids)
    uses: dict[int, list[LotUse]] = {}
    lots_with_clawbacks: list[int] = []
    for has_clawbacks, transaction_id, *fields in fetch_rows(
        db, _USES, {"organization_id": organization_id, "ids": ids}
    ):
        use = LotUse(*fields)
        uses.setdefault(transaction_id, []).append(use)
        if has_clawbacks:
            lots_with_clawbacks.append(use.ledger_lot_id)
    clawbacks = _find_clawbacks(db, organization_id, lots_with_clawbacks) if lots_with_clawbacks else ()
    rows = db.exec_driver_sql(_STORED, {"organization_id": organization_id, "ids": ids}).mappings()
    transactions = [_stored_transaction(row, uses.get(row["ledger_transaction_id"], ())) for row in rows]
    debited_wallet_ids = {
        transaction.from_wallet_id for transaction in transactions if transaction.from_wallet_id is not None
    }
    mints: list[StoredTransaction] = []
    if debited_wallet_ids:
        values = {"organization_id": organization_id, "wallet_ids": list(debited_wallet_ids)}
        mints = [_stored_transaction(row) for row in db.exec_driver_sql(_MINTS_TO_REPAY, values).mappings()]
    return {
        transaction.ledger_transaction_id: replace(
            transaction, mints_to_repay=_mints_to_repay(transaction, mints), clawbacks=clawbacks
        )
        for transaction in transactions
    }


def find_waiting_mints(db: Connection, organization_id: int, wallet_ids: Collection[int]) -> list[StoredTransaction]:
    """The mints of locked wallets that wait for events."""
    ids = [mint_id for (mint_id,) in fetch_rows(db, _AWAITING, (organization_id, list(wallet_ids)))]
    mints = find_stored(db, organization_id, ids).values()
    return [replace(mint, order_external_id=(mint.awaited or {}).get(ORDER)) for mint in mints]


def with_orders(
    db: Connection, organization_id: int, without_orders: Iterable[StoredTransaction]
) -> list[StoredTransaction]:
    """The same transactions; each mint with a wait has the external id of the order of its event.

    No statement is sent if no transaction is such a mint.
    """
    transactions = list(without_orders)
    ids_with_wait = [transaction.ledger_transaction_id for transaction in transactions if transaction.has_wait]
    if not ids_with_wait:
        return transactions
    orders = dict(fetch_rows(db, _ORDERS, {"organization_id": organization_id, "ids": ids_with_wait}))
    return [
        replace(transaction, order_external_id=orders.get(transaction.ledger_transaction_id))
        for transaction in transactions
    ]


def _stored_transaction(row: Mapping[Any, Any], uses: Iterable[LotUse] = ()) -> StoredTransaction:
    return StoredTransaction(**{**row, "lot_ids": tuple(row["lot_ids"] or ())}, uses=tuple(uses))


def _find_clawbacks(db: Connection, organization_id: int, lot_ids: list[int]) -> tuple[Clawback, ...]:
    """The reverts and returns of points of these lots, and of the lots that gave points in their place, and so on."""
    lots_by_origin: dict[int, set[int]] = {}
    reverted_ids: dict[int, int] = {}
    uses: dict[int, list[LotUse]] = {}
    values = {"organization_id": organization_id, "lot_ids": lot_ids}
    for origin_id, reverted_id, transaction_id, lot_id, *fields in fetch_rows(db, _CLAWBACKS, values):
        lots_by_origin.setdefault(origin_id, set()).add(lot_id)
        if transaction_id is not None:
            reverted_ids[transaction_id] = reverted_id
            uses.setdefault(transaction_id, []).append(LotUse(lot_id, *fields))
    return tuple(
        Clawback(transaction_id, frozenset(lots_by_origin[reverted_id]), tuple(uses[transaction_id]))
        for transaction_id, reverted_id in reverted_ids.items()
    )


def _mints_to_repay(debit: StoredTransaction, mints: Iterable[StoredTransaction]) -> tuple[StoredTransaction, ...]:
    """The mints whose missing amounts a reversal of the debit repays: mints of its balance that were reverted later."""
    balance = (debit.from_wallet_id, debit.ledger_account_id)
    mints_of_balance = [mint for mint in mints if (mint.to_wallet_id, mint.ledger_account_id) == balance]
    return tuple(mint for mint in mints_of_balance if debit.ledger_transaction_id < (mint.clamped_by or 0))
