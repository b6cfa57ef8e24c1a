"""The lots from which transactions took points, for explanations of the transactions."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from domain.ledger.views import ConsumedLot, ConsumedLots, TransactionRow
from persistence.ledger_lots import MAX_LISTED
from persistence.rows import as_json

_CONSUMED = """
SELECT p.ledger_transaction_id, p.wallet_id, l.*
FROM jsonb_to_recordset(%s::jsonb) AS p(ledger_transaction_id bigint, wallet_id bigint)
CROSS JOIN LATERAL (
    SELECT count(*) OVER () AS total, u.ledger_lot_id, lots.ledger_transaction_id, u.amount, lots.expires_at
    FROM ledger_lot_uses u JOIN ledger_lots lots USING (organization_id, ledger_lot_id)
    WHERE u.organization_id = %s AND u.ledger_transaction_id = p.ledger_transaction_id
        AND lots.wallet_id = p.wallet_id
    ORDER BY lots.expires_at NULLS LAST, u.ledger_lot_id LIMIT %s
) l
"""


def with_consumed_lots(db: Connection, organization_id: int, rows: Sequence[TransactionRow]) -> list[TransactionRow]:
    """The rows of transactions, each with the lots that the transaction took from the row's wallet; in one query.

    A row of an overdraft has no lots.
    """
    pairs = [
        {"ledger_transaction_id": row.ledger_transaction_id, "wallet_id": row.wallet_id}
        for row in rows
        if row.wallet_id is not None and not row.is_overdraft
    ]
    consumed: dict[tuple[int, int], list[tuple[int, ConsumedLot]]] = {}
    for transaction_id, wallet_id, total, *lot in db.exec_driver_sql(
        _CONSUMED, (as_json(pairs), organization_id, MAX_LISTED)
    ):
        consumed.setdefault((transaction_id, wallet_id), []).append((total, ConsumedLot(*lot)))

    def lots_of(row: TransactionRow) -> ConsumedLots:
        if row.wallet_id is None or row.is_overdraft:
            return ConsumedLots(0, ())
        return _consumed_lots(consumed.get((row.ledger_transaction_id, row.wallet_id), ()))

    return [replace(row, lots=lots_of(row)) for row in rows]


def _consumed_lots(rows: Iterable[tuple[int, ConsumedLot]]) -> ConsumedLots:
    """The lots of the rows; each row has the number of all consumed lots, though only the first ones are read."""
    listed = list(rows)
    return ConsumedLots(listed[0][0] if listed else 0, tuple(lot for _, lot in listed))
