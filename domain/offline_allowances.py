"""Offline allowances: points that are held for a member, to be spent where the server cannot be reached.

An allowance is a hold of the ledger that ends by time. The transaction that holds the points decides its status; the
allowance adds the dates of the token and the details of the redemption.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from domain.durations import end_of_validity
from domain.fields import Internal, Key, Personal
from domain.ledger.records import PENDING, SETTLED, HoldState, LedgerAccount, fraction_fault
from domain.organizations import Organization
from domain.problems import Conflict, FieldFault, InvalidRequest, Refusal

# The statuses of allowances.
OPEN, REDEEMED, EXPIRED, CANCELLED = "open", "redeemed", "expired", "cancelled"
# The audience of the tokens, which tills check.
AUDIENCE = "offline-allowance"
_DEFAULTS = {"maxHours": 24, "syncHours": 24}


@dataclass(frozen=True, slots=True)
class OfflineAllowance:
    """A member's allowance: its token ends at `expires_at`, its hold at `held_until`.

    `issued_at` is when the token was issued, in real time. `redemption_key` is the `systemUniqueKey` of the redemption.
    """

    organization_id: int
    offline_allowance_id: int
    offline_allowance_key: Key
    member_id: int
    ledger_account_id: int
    ledger_transaction_id: int
    amount: Decimal
    expires_at: datetime
    held_until: datetime
    issued_at: Internal[datetime]
    redeemed_amount: Decimal | None
    redemption_key: Internal[str | None]
    redemption_digest: Personal[Internal[bytes | None]]
    order_external_id: Personal[str | None]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class AllowanceView(OfflineAllowance):
    """An allowance with its account's key and its status by the hold; only the response to its creation has `token`."""

    ledger_account_key: Key
    status: str
    token: str | None = None


def status_of(allowance: OfflineAllowance, hold: HoldState, now: datetime) -> str:
    """The status of an allowance; after the end of its hold it is expired, even before the release is posted."""
    if hold.status == SETTLED or hold.is_captured:
        return REDEEMED
    lasted_until = now if hold.status == PENDING else hold.ended_at
    if lasted_until >= allowance.held_until:
        return EXPIRED
    return OPEN if hold.status == PENDING else CANCELLED


def complete_policy(policy: Mapping[str, Any] | None, decimals: int) -> Mapping[str, Any] | None:
    """The `offlineAllowance` of an account with its defaults filled in; raises InvalidRequest."""
    if policy is None:
        return None
    fault = fraction_fault("maxAmount", policy["maxAmount"], decimals)
    if fault is not None:
        raise InvalidRequest([replace(fault, pointer=f"/offlineAllowance{fault.pointer}")])
    return {**_DEFAULTS, **policy}


def ends_of(
    account: LedgerAccount, organization: Organization, amount: Decimal, valid_for: str | None, now: datetime
) -> tuple[datetime, datetime]:
    """When the token of a new allowance expires, and until when its amount is held.

    Both are whole seconds, as the moments in tokens are. Raises OfflineAllowanceDisabled, OfflineAllowanceLimit, or
    InvalidRequest for a `valid_for` that is no duration, or longer than the account allows.
    """
    refuse_zero(amount)
    policy = account.offline_allowance
    if policy is None or not policy["enabled"]:
        raise OfflineAllowanceDisabled(f"The offlineAllowance of the ledger account {account.name} is not enabled.")
    begin = now.replace(microsecond=0)
    maximum = f"PT{policy['maxHours']}H"
    expires_at = end_of_validity(valid_for or maximum, begin, organization.zone, maximum)
    if amount > policy["maxAmount"]:
        raise OfflineAllowanceLimit(f"amount is {amount}; the maxAmount of the account is {policy['maxAmount']}.")
    return expires_at, expires_at + timedelta(hours=policy["syncHours"])


def refuse_zero(amount: Decimal) -> None:
    """Raise InvalidRequest for an amount of 0."""
    if not amount:
        raise InvalidRequest([FieldFault("amount is not more than 0", pointer="/amount")])


def refuse_unless_open(status: str, key: str) -> None:
    """Raise OfflineAllowanceRedeemed or OfflineAllowanceClosed for an allowance that is not open."""
    if status == REDEEMED:
        raise OfflineAllowanceRedeemed(f"The offline allowance {key} has been redeemed.")
    if status != OPEN:
        raise OfflineAllowanceClosed(f"The offline allowance {key} is {status}.")


class OfflineAllowanceDisabled(Conflict, title="The ledger account allows no offline allowances"):
    """The ledger account does not allow offline allowances."""


class OfflineAllowanceLimit(Conflict, title="The limit of offline allowances is reached"):
    """The allowance would be greater than the account allows, or a second open one."""


class OfflineAllowanceRedeemed(Conflict, title="The offline allowance has been redeemed"):
    """An allowance is redeemed once."""


class OfflineAllowanceClosed(Conflict, title="The offline allowance is closed"):
    """The allowance was cancelled, or its hold has ended."""


class OfflineAllowanceInvalid(Refusal, title="The token is no offline allowance"):
    """The server has not signed the token of a redemption for the organization."""

    kind = "invalid"
