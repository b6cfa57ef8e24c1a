"""What is shown of the ledger: a wallet's holding of an account at a moment, and the rows of transactions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class WalletView:
    """What a wallet holds of one account, without what has expired; the dates are None until something moves."""

    ledger_id: int
    ledger_key: str
    ledger_account_id: int
    ledger_account_key: str
    ledger_account_name: str
    is_default_account: bool
    wallet_id: int
    current_balance: Decimal
    pending_credit_balance: Decimal
    pending_debit_balance: Decimal
    current_overdraft_balance: Decimal
    total_overdraft_credit_balance: Decimal
    total_fiat_value: Decimal
    last_transaction_date: datetime | None
    created_at: datetime | None
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """One wallet's row of a transaction; without a wallet for what moved nothing, such as a change of the supply."""

    ledger_transaction_id: int
    ledger_transaction_detail_index: int
    ledger_account_id: int
    ledger_account_key: str
    transaction_type: int
    status: int
    amount: Decimal
    wallet_id: int | None
    from_wallet_id: int | None
    to_wallet_id: int | None
    updated_balance: Decimal | None
    is_overdraft: bool
    system_unique_key: str
    external_id: str | None
    external_event_date: datetime | None
    description: str | None
    tags: tuple[str, ...]
    reverted_ledger_transaction_id: int | None
    reversal_ledger_transaction_id: int | None
    fiat_value: Decimal | None
    fiat_gross_amount: Decimal | None
    fiat_currency: str | None
    created_at: datetime
    updated_at: datetime
