"""Views of the ledger: a wallet's holding of an account at a moment, and the rows of transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from domain.fields import Internal
from domain.ledger.availability import AVAILABLE
from domain.ledger.expiring import ExpiringPoints
from domain.ledger.lots import ArrivedMint


@dataclass(frozen=True, slots=True)
class ExpiringLots:
    """The amounts of a wallet that expire at one moment, or never: spendable, and held by pending transactions."""

    expires_at: datetime | None
    available: Decimal
    reserved: Decimal


@dataclass(frozen=True, slots=True)
class WaitingLot:
    """An amount that becomes available at a moment, or that waits for an event if the moment is None."""

    available_at: datetime | None
    amount: Decimal


@dataclass(frozen=True, slots=True)
class WalletLots:
    """The parts of a balance; `unlisted` is the part of `available` and `reserved` that `expiring` leaves out.

    `waiting` are the first amounts that are not available yet.
    """

    available: Decimal
    reserved: Decimal
    pending: Decimal
    expiring: tuple[ExpiringLots, ...]
    unlisted: Decimal
    waiting: tuple[WaitingLot, ...]


@dataclass(frozen=True, slots=True)
class NextAvailable:
    """The next amount of a balance that becomes available by time."""

    amount: Decimal
    available_at: datetime


@dataclass(frozen=True, slots=True)
class WalletView:
    """A wallet's holding of one account, without expired value; the dates are None until a transaction changes it."""

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
    earned: Internal[Decimal]
    last_transaction_date: datetime | None
    last_activity_date: Internal[datetime | None]
    created_at: datetime | None
    updated_at: datetime | None
    # The amount that is not available yet, and the next part of it that will be.
    pending: Decimal
    next_available: NextAvailable | None
    # What time has changed and is not posted yet: expired value, holds that have ended, and mints available by now.
    expired: Internal[Decimal]
    ended_holds: Internal[Decimal]
    arrived_mints: Internal[tuple[ArrivedMint, ...]]
    lots: WalletLots | None = None
    expiring: ExpiringPoints | None = None

    @property
    def available_balance(self) -> Decimal:
        """The balance less what pending transactions hold."""
        return self.current_balance - self.pending_debit_balance


@dataclass(frozen=True, slots=True)
class ConsumedLot:
    """An amount that a transaction took from a lot; `made_by_ledger_transaction_id` created the lot."""

    ledger_lot_id: int
    made_by_ledger_transaction_id: int
    amount: Decimal
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class ConsumedLots:
    """The first lots that a transaction took from a wallet, soonest to expire first, and their total number."""

    count: int
    consumed: tuple[ConsumedLot, ...]


@dataclass(frozen=True, slots=True)
class DailyBalance:
    """A wallet's balance of an account at the end of a day (UTC)."""

    ledger_account_id: int
    ledger_account_key: str
    is_default_account: bool
    date: date
    amount: Decimal


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A wallet's row of a transaction; without a wallet if nothing moved, as for a change of the supply."""

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
    availability: str
    available_at: datetime | None
    available_on: Mapping[str, Any] | None
    created_at: datetime
    updated_at: datetime
    lots: ConsumedLots | None = None

    def by_now(self, now: datetime) -> TransactionRow:
        """The row at a moment, at which points may have become available without a posting yet."""
        if self.available_at is None or self.available_at > now:
            return self
        return replace(self, availability=AVAILABLE, available_at=None)
