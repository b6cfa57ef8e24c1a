"""The lots from which transactions took points, for explanations of the transactions."""

from collections.abc import Sequence
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
    # By transaction and wallet: the first of the lots, and the number of all of them.
    first_lots: dict[tuple[int, int], list[ConsumedLot]] = {}
    totals: dict[tuple[int, int], int] = {}
    for transaction_id, wallet_id, total, *lot in db.exec_driver_sql(
        _CONSUMED, (as_json(pairs), organization_id, MAX_LISTED)
    ):
        first_lots.setdefault((transaction_id, wallet_id), []).append(ConsumedLot(*lot))
        totals[transaction_id, wallet_id] = total

    def lots_of(row: TransactionRow) -> ConsumedLots:
        if row.wallet_id is None or row.is_overdraft:
            return ConsumedLots(0, consumed=())
        pair = (row.ledger_transaction_id, row.wallet_id)
        return ConsumedLots(totals.get(pair, 0), tuple(first_lots.get(pair, ())))

    return [replace(row, lots=lots_of(row)) for row in rows]
