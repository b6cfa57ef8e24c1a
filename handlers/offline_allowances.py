"""Offline allowances: points of members that shops without a network can take."""

from collections.abc import Mapping
from typing import Any

from domain.members import Member
from domain.offline_allowances import AllowanceView, OfflineAllowance
from handlers.call import Call
from handlers.messages.base import wrapped
from handlers.messages.lists import listed
from handlers.operation import operation
from handlers.schemas.offline_allowances import ALLOWANCE, redeemed
from handlers.services.ledger.offline_allowances import (
    AllowanceRedemption,
    NewAllowance,
    Redeemed,
    cancel_allowance,
    create_allowance,
    find_allowances,
    redeem_allowance,
)
from persistence.paging import Paged

_ONE = wrapped("offlineAllowance", ALLOWANCE)


@operation("createOfflineAllowance", answer=_ONE, audit="offline-allowance")
def create_offline_allowance(call: Call, member: Member, body: NewAllowance) -> AllowanceView:
    """Hold points of the member, and return a token for them."""
    return create_allowance(call, member, body)


@operation("listOfflineAllowances", answer=listed(ALLOWANCE))
def list_offline_allowances(call: Call, member: Member, query: Mapping[str, Any]) -> Paged[AllowanceView]:
    """A page of the member's allowances."""
    return find_allowances(call, member, query)


@operation("cancelOfflineAllowance", answer=_ONE, audit="offline-allowance")
def cancel_offline_allowance(call: Call, offline_allowance: OfflineAllowance) -> AllowanceView:
    """Release what an allowance holds."""
    return cancel_allowance(call, offline_allowance)


@operation("redeemOfflineAllowance", answer=redeemed, audit="offline-allowance")
def redeem_offline_allowance(call: Call, body: AllowanceRedemption) -> Redeemed:
    """Burn an amount of what an allowance holds."""
    return redeem_allowance(call, body)
