"""Offline allowances on the wire."""

from typing import Any

from domain.offline_allowances import AllowanceView
from handlers.messages.base import Shape
from handlers.schemas.ledgers import TRANSACTION_ROW
from handlers.services.ledger.offline_allowances import RedeemedAllowance

ALLOWANCE = Shape(AllowanceView, without=("organization_id", "member_id", "ledger_account_id"), optional=("token",))


def redemption_response(result: RedeemedAllowance) -> dict[str, Any]:
    """The response with a redeemed allowance, and the rows of its burn."""
    return {
        "offlineAllowance": ALLOWANCE.dump(result.allowance),
        "transactions": [TRANSACTION_ROW.dump(row) for row in result.transactions],
    }
