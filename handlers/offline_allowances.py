"""Offline allowances: points of members that are reserved for shops without a network."""

from collections.abc import Mapping
from typing import Any

from domain.members import Member
from domain.offline_allowances import AllowanceView, OfflineAllowance
from handlers.call import Call
from handlers.messages.base import wrapped
from handlers.messages.lists import listed
from handlers.operation import operation
from handlers.schemas.offline_allowances import ALLOWANCE, redemption_response
from handlers.services.ledger.offline_allowances import (
    AllowanceRedemption,
    NewAllowance,
    RedeemedAllowance,
    cancel_allowance,
    create_allowance,
    find_allowances,
    redeem_allowance,
)
from persistence.paging import Paged

_ALLOWANCE_RESPONSE = wrapped("offlineAllowance", ALLOWANCE)


@operation("createOfflineAllowance", response=_ALLOWANCE_RESPONSE, audit="offline-allowance")
def create_offline_allowance(call: Call, member: Member, body: NewAllowance) -> AllowanceView:
    """Reserve points of the member; the response has the token that a shop checks offline."""
    return create_allowance(call, member, body)


@operation("listOfflineAllowances", response=listed(ALLOWANCE))
def list_offline_allowances(call: Call, member: Member, query: Mapping[str, Any]) -> Paged[AllowanceView]:
    """A page of the member's allowances."""
    return find_allowances(call, member, query)


@operation("cancelOfflineAllowance", response=_ALLOWANCE_RESPONSE, audit="offline-allowance")
def cancel_offline_allowance(call: Call, offline_allowance: OfflineAllowance) -> AllowanceView:
    """Release the points that an allowance reserves."""
    return cancel_allowance(call, offline_allowance)


@operation("redeemOfflineAllowance", response=redemption_response, audit="offline-allowance")
def redeem_offline_allowance(call: Call, body: AllowanceRedemption) -> RedeemedAllowance:
    """Burn an amount of the points that an allowance reserves."""
    return redeem_allowance(call, body)
