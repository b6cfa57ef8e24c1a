"""The records of the ledger."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.fields import Key

MAX_AMOUNT = Decimal(18446744073709)

TRANSFER, MINT, BURN, REVERT = 0, 1, 2, 3
TRANSACTION_TYPES = ("transfer", "mint", "burn", "revert")

PENDING, SETTLED, REVERTED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger holds ledger accounts (units of value) and wallets (holders)."""

    organization_id: int
    ledger_id: int
    ledger_key: Key
    name: str
    description: str | None
    external_key: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class LedgerAccount:
    """A unit of value such as points; `decimals` is how many fraction digits an amount may have."""

    organization_id: int
    ledger_account_id: int
    ledger_account_key: Key
    ledger_id: int
    alias: str | None
    name: str
    active: bool
    is_currency: bool
    decimals: int
    format_string: str | None
    chain_asset_id: str | None
    chain_sync_enabled: bool
    max_supply: Decimal | None
    is_revolving: bool
    point_tracking_enabled: bool
    expires_in_months: int | None
    expiration_policies: tuple[Mapping[str, Any], ...]
    is_default_account: bool
    overdraft_limit: Decimal | None
    external_key: str | None
    created_at: datetime
    updated_at: datetime

    @property
    def expires_after_last_transaction(self) -> int | None:
        """Months from a wallet's last transaction until its whole balance expires, if there is such a policy."""
        for policy in self.expiration_policies:
            if policy["expirationType"] == "lastTransaction":
                return int(policy["period"])
        return None


@dataclass(frozen=True, slots=True)
class Wallet:
    """A holder of balances in the accounts of one ledger."""

    organization_id: int
    wallet_id: int
    wallet_key: Key
    ledger_id: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StoredTransaction:
    """The account and wallets of a ledger transaction."""

    organization_id: int
    ledger_transaction_id: int
    ledger_account_id: int


@dataclass(frozen=True, slots=True)
class Balance:
    """A wallet's balance of one account; a row that does not exist yet reads as zero."""

    organization_id: int
    wallet_id: int
    ledger_account_id: int
    current_balance: Decimal
    pending_credit_balance: Decimal
    pending_debit_balance: Decimal
    current_overdraft_balance: Decimal
    total_overdraft_credit_balance: Decimal
    total_fiat_value: Decimal
    last_transaction_date: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def available(self) -> Decimal:
        """The spendable amount: the current balance less amounts set aside for manual captures."""
        return self.current_balance - self.pending_debit_balance
