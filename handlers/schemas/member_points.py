"""Mint and burn by member on the wire (administration "Members" 6)."""

from typing import Any

from handlers.messages.base import Body, Shape
from handlers.services.ledger.move_points import MovedPoints, PointsMove

MEMBER_POINTS = Body(PointsMove)
_TRANSACTION = Shape(MovedPoints)


def moved_points(transaction: Any) -> dict[str, Any]:
    """The answer to mint and burn: one transaction, its id as text."""
    answer = _TRANSACTION.dump(transaction)
    return {"ledgerTransactions": [{**answer, "ledgerTransactionId": str(transaction.ledger_transaction_id)}]}
