"""Mint and burn by member on the wire (administration "Members" 6)."""

from typing import Any

from handlers.messages.base import Body, Exact, Plain, Shape, WireSchema
from handlers.services.ledger.move_points import PointsMove


class _Transaction(WireSchema):
    ledger_transaction_id = Plain()
    amount = Exact()
    from_wallet_id = Plain()
    to_wallet_id = Plain()
    organization_id = Plain()
    ledger_id = Plain()
    ledger_account_id = Plain()
    atomic_set_id = Plain()
    system_unique_key = Plain()


MEMBER_POINTS = Body(PointsMove)
_TRANSACTION = Shape(_Transaction)


def moved_points(moved: Any) -> dict[str, Any]:
    """The answer to mint and burn: one transaction, its id as text."""
    answer = _TRANSACTION.dump(moved)
    return {"ledgerTransactions": [{**answer, "ledgerTransactionId": str(moved.ledger_transaction_id)}]}
