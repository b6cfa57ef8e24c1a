"""Ledgers, ledger accounts, wallets and transactions on the wire (administration, "Records")."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

from marshmallow import fields

from domain.ledger.records import TRANSACTION_TYPES
from domain.problems import FieldFault, InvalidRequest
from handlers.messages.base import OF_REQUEST, Body, Calendar, Exact, Instant, Nested, Plain, Shape, Update, WireSchema


class _Ledger(WireSchema):
    organization_id = Plain()
    ledger_id = Plain()
    ledger_key = Plain()
    name = Plain()
    description = Plain()
    external_key = Plain()
    is_default = Plain()
    created_at = Instant()
    updated_at = Instant()


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
    overdraft_limit: Decimal | None = None
    is_default_account: bool = field(default=False, metadata=OF_REQUEST)
    external_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAccount(AccountSettings):
    """An account to be created."""

    max_supply: Decimal | None = None


class _Account(WireSchema):
    ledger_id = Plain()
    ledger_key = Plain()
    ledger_account_id = Plain()
    ledger_account_key = Plain()
    chain_asset_id = Plain()
    issued = Exact()
    created_at = Instant()
    updated_at = Instant()


class _ExpiringLots(WireSchema):
    expires_at = Instant()
    available = Exact()
    reserved = Exact()


class _WalletLots(WireSchema):
    available = Exact()
    reserved = Exact()
    pending = Exact()
    expiring = Nested(Shape(_ExpiringLots), many=True)
    unlisted = Exact()


class _Wallet(WireSchema):
    ledger_id = Plain()
    ledger_key = Plain()
    ledger_account_id = Plain()
    is_default_account = Plain()
    ledger_account_name = Plain()
    ledger_account_key = Plain()
    wallet_id = Plain()
    current_balance = Exact()
    pending_credit_balance = Exact()
    pending_debit_balance = Exact()
    current_overdraft_balance = Exact()
    total_overdraft_credit_balance = Exact()
    last_transaction_date = Instant()
    total_fiat_value = Exact()
    created_at = Instant()
    updated_at = Instant()
    lots = Nested(Shape(_WalletLots), metadata={"omit_none": True})


class _DailyBalance(WireSchema):
    ledger_account_id = Plain()
    ledger_account_key = Plain()
    is_default_account = Plain()
    date = Calendar()
    amount = Exact()


class TransactionType(fields.Field[Any]):
    """The kind of a transaction: a number inside, a name in answers."""

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> Any:
        return TRANSACTION_TYPES[value]


class _ConsumedLot(WireSchema):
    ledger_lot_id = Plain()
    made_by = Plain(data_key="madeByLedgerTransactionId")
    amount = Exact()
    expires_at = Instant()


class _ConsumedLots(WireSchema):
    count = Plain()
    consumed = Nested(Shape(_ConsumedLot), many=True)


class _TransactionRow(WireSchema):
    ledger_transaction_id = Plain()
    ledger_transaction_detail_index = Plain()
    ledger_account_id = Plain()
    ledger_account_key = Plain()
    transaction_type = TransactionType()
    status = Plain()
    amount = Exact()
    wallet_id = Plain()
    from_wallet_id = Plain()
    to_wallet_id = Plain()
    updated_balance = Exact()
    is_overdraft = Plain()
    system_unique_key = Plain()
    external_id = Plain()
    external_event_date = Instant()
    description = Plain()
    tags = Plain()
    reverted_ledger_transaction_id = Plain()
    reversal_ledger_transaction_id = Plain()
    fiat_value = Exact()
    fiat_gross_amount = Exact()
    fiat_currency = Plain()
    created_at = Instant()
    updated_at = Instant()
    lots = Nested(Shape(_ConsumedLots), metadata={"omit_none": True})


_DAYS = 30
_MOST_DAYS = 366


def days_of(query: Mapping[str, Any], today: date) -> tuple[date, date]:
    """The first and last day of `fromDate` and `toDate`, without days after `today`.

    Raises InvalidRequest for days in the wrong order, or too many.
    """
    last = date.fromisoformat(query["toDate"]) if "toDate" in query else today
    if "fromDate" in query:
        first = date.fromisoformat(query["fromDate"])
    else:
        first = date.fromordinal(max(1, last.toordinal() - _DAYS + 1))
    if first > last:
        raise InvalidRequest([FieldFault("fromDate is after toDate", parameter="fromDate")])
    if (last - first).days >= _MOST_DAYS:
        raise InvalidRequest(
            [FieldFault(f"fromDate is more than {_MOST_DAYS} days before toDate", parameter="fromDate")]
        )
    return first, min(last, today)


LEDGER = Shape(_Ledger)
NEW_LEDGER = Body(LedgerProperties)
ACCOUNT = Shape(NewAccount, _Account)
NEW_ACCOUNT = Body(NewAccount)
ACCOUNT_CHANGES = Update(AccountSettings)
WALLET = Shape(_Wallet)
DAILY_BALANCE = Shape(_DailyBalance)
TRANSACTION_ROW = Shape(_TransactionRow)
