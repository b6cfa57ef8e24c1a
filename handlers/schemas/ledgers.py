"""Ledgers, ledger accounts, wallets and transactions on the wire (administration, "Records")."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

from marshmallow import fields

from domain.ledger.expiry import NO_ROUNDING
from domain.ledger.records import TRANSACTION_TYPES, Ledger, LedgerAccount
from domain.ledger.views import DailyBalance, TransactionRow, WalletView
from domain.problems import FieldFault, InvalidRequest
from handlers.messages.base import OF_REQUEST, Body, Exact, Plain, Shape, WireSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerProperties:
    """The writable fields of a ledger."""

    name: str
    description: str | None = None
    external_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSettings:
    """The settings of an account that can change."""

    alias: str | None = None
    name: str
    active: bool
    is_currency: bool = False
    decimals: int = 0
    format_string: str | None = None
    is_revolving: bool
    point_tracking_enabled: bool | None = field(default=None, metadata=OF_REQUEST)
    chain_sync_enabled: bool
    expires_in_months: int | None = None
    expiration_policies: Sequence[Mapping[str, Any]] = ()
    expiry_rounding: str = NO_ROUNDING
    expiry_year_start_month: int = 1
    timezone: str | None = None
    tier_expirations: Sequence[Mapping[str, Any]] = ()
    late_activity_days: int = 3
    restored_expiry_days: int = 0
    points_expiring: Mapping[str, Any] | None = None
    overdraft_limit: Decimal | None = None
    max_balance: Decimal | None = None
    offline_allowance: Mapping[str, Any] | None = None
    default_availability: Mapping[str, Any] | None = None
    fiat_per_point: Decimal | None = None
    redemption: Mapping[str, Any] | None = None
    is_default_account: bool = field(default=False, metadata=OF_REQUEST)
    external_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAccount(AccountSettings):
    """An account to be created."""

    max_supply: Decimal | None = None


class TransactionType(fields.Field[Any]):
    """The type of a transaction: a number in the code, a name in responses."""

    dump = TRANSACTION_TYPES.__getitem__


_DEFAULT_DAYS = 30
_MAX_DAYS = 366


def days_of(query: Mapping[str, Any], today: date) -> tuple[date, date]:
    """The first and the last day of the range from `fromDate` to `toDate`, without days after `today`.

    By default, the range has `_DEFAULT_DAYS` days, and ends today. If it begins after today, the last day is before the
    first one. Raises InvalidRequest for days in the wrong order, or too many days.
    """
    last_day = date.fromisoformat(query["toDate"]) if "toDate" in query else today
    if "fromDate" in query:
        first_day = date.fromisoformat(query["fromDate"])
    else:
        first_day = date.fromordinal(max(1, last_day.toordinal() - _DEFAULT_DAYS + 1))
    if first_day > last_day:
        raise InvalidRequest([FieldFault("fromDate is after toDate", parameter="fromDate")])
    count = (last_day - first_day).days + 1
    if count > _MAX_DAYS:
        detail = f"fromDate to toDate is a range of {count} days; the maximum is {_MAX_DAYS}"
        raise InvalidRequest([FieldFault(detail, parameter="fromDate")])
    return first_day, min(last_day, today)


class _IsDefault(WireSchema):
    is_default = Plain()


class _WithLedger(WireSchema):
    ledger_key = Plain()
    issued = Exact()


class _WithTypeName(WireSchema):
    transaction_type = TransactionType()


LEDGER = Shape(_IsDefault, Ledger)
ACCOUNT = Shape(
    _WithLedger,
    LedgerAccount,
    without=("organization_id",),
    optional=("offline_allowance", "default_availability", "points_expiring", "redemption"),
)
NEW_ACCOUNT = Body(NewAccount)
WALLET = Shape(WalletView, without=("expiring",), optional=("lots", "next_available"))
DAILY_BALANCE = Shape(DailyBalance)
TRANSACTION_ROW = Shape(_WithTypeName, TransactionRow, optional=("lots", "available_on"))
