"""Members with what belongs to their record but stands elsewhere: tiers and balances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from domain.members import Member
from handlers.call import Call
from handlers.flows.current_tiers import current_tiers
from persistence import ledger


def view_members(call: Call, found: Sequence[Member], *, with_balances: bool = False) -> list[dict[str, Any]]:
    """The members as they are answered, in their order; the number of statements does not grow with theirs."""
    organization_id = call.organization.organization_id
    tiers = current_tiers(call, found)
    balances: dict[int, Any] = {}
    if with_balances:
        wallet_ids = [member.wallet_id for member in found]
        balances = ledger.balances_of_wallets(call.db, organization_id, wallet_ids, call.now)
    return [
        {
            **asdict(member),
            "tiers": tiers[member.member_id],
            "ledger_balances": balances.get(member.wallet_id, []) if with_balances else None,
        }
        for member in found
    ]
