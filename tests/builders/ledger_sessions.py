"""Ledger sessions of two wallets and stored transactions between them, for tests without a database."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from domain.ledger.postings import Details, Holding, Step, StoredTransaction
from domain.ledger.records import BURN, MINT, SETTLED, TRANSFER, LedgerAccount
from domain.ledger.session import LedgerSession
from tests.builders.campaigns import NOON, account

ANA, BEN = 11, 12
# The id of the transaction that `stored_transaction` describes by default.
STORED_ID = 8
KEY = Details("key")
POINTS, TRACKED = account(), account(point_tracking_enabled=True)


def amounts(**values: Any) -> dict[str, Decimal]:
    """The fields of a holding that are amounts."""
    return {name: Decimal(value) for name, value in values.items()}


def session(of: LedgerAccount = POINTS, *, issued: Any = None, **wallets: Mapping[str, Any]) -> LedgerSession:
    """A session at NOON with one account and the holdings of the wallets `ana` and `ben`; `issued` is its supply."""
    holdings = {
        (wallet_id, 1): Holding(**wallets[name]) for wallet_id, name in ((ANA, "ana"), (BEN, "ben")) if name in wallets
    }
    return LedgerSession({1: of}, holdings, {1: Decimal(issued)} if issued else {}, NOON)


def stored_transaction(
    transaction_type: int = BURN, status: int = SETTLED, *, amount: Any = 10, number: int = STORED_ID, **values: Any
) -> StoredTransaction:
    """A stored transaction of Ana, or a transfer from Ana to Ben; by default a burn of 10."""
    sender = None if transaction_type == MINT else ANA
    receiver = {MINT: ANA, BURN: None, TRANSFER: BEN}.get(transaction_type)
    plain: dict[str, Any] = {
        "ledger_transaction_id": number,
        "ledger_account_id": 1,
        "transaction_type": transaction_type,
        "status": status,
        "amount": Decimal(amount),
        "from_wallet_id": sender,
        "to_wallet_id": receiver,
        "is_expiry": False,
        "fiat_value": None,
        "reversal_ledger_transaction_id": None,
        "external_event_date": None,
        "pending_expires_at": None,
        "entry_count": 2,
    }
    return StoredTransaction(**plain | values)


def entries(step: Step) -> list[tuple[int | None, Decimal]]:
    """(wallet id, amount) of each entry; the wallet is None for the entry of the account's issuance."""
    return [(entry.wallet_id, entry.amount) for entry in step.entries]


def current_debit_credit(session: LedgerSession, wallet_id: int = ANA) -> tuple[Decimal, Decimal, Decimal]:
    """(current balance, pending debit, pending credit) of a wallet, by default of Ana's."""
    holding = session.holding(wallet_id, 1)
    return holding.current, holding.pending_debit, holding.pending_credit
