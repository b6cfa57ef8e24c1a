"""Ledgers and their accounts."""

from collections.abc import Collection, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, case, func, insert, literal, or_, select, update

from domain.ledger.records import PENDING, Ledger, LedgerAccount, LedgerAccountInUse
from domain.problems import NameTaken
from persistence import organizations
from persistence.filters import has_row, is_same
from persistence.ledger_transactions import add_mint_of_zero
from persistence.records import Records
from persistence.tables.ledger import (
    ledger_account_supplies,
    ledger_accounts,
    ledger_balances,
    ledger_lots,
    ledger_transactions,
    ledgers,
)

LEDGERS = Records(ledgers, Ledger)
ACCOUNTS = Records(
    ledger_accounts,
    LedgerAccount,
    equal=("name", "alias", "ledgerAccountKey"),
    conflicts={"uq_ledger_accounts_alias": (NameTaken, "The ledger has an account with the alias {alias}.")},
    locks_references=True,
)

_ZERO = Decimal(0)


def lock_account(db: Connection, ledger: Ledger, account: LedgerAccount) -> LedgerAccount:
    """Lock the ledger, then the account against postings, until the transaction ends; return the current account."""
    LEDGERS.lock(db, ledger)
    return ACCOUNTS.lock(db, account)


class AccountKeys(NamedTuple):
    """The key of an account, and the key of its ledger."""

    ledger_key: str
    ledger_account_key: str


def find_keys_of_accounts(
    db: Connection, organization_id: int, ledger_account_ids: Collection[int]
) -> dict[int, AccountKeys]:
    """The keys of these accounts, by account id."""
    statement = (
        select(ledger_accounts.c.ledger_account_id, ledgers.c.ledger_key, ledger_accounts.c.ledger_account_key)
        .join_from(
            ledger_accounts,
            ledgers,
            is_same(ledgers, ledger_accounts, "ledger_id"),
        )
        .where(
            ledger_accounts.c.organization_id == organization_id,
            ledger_accounts.c.ledger_account_id.in_(ledger_account_ids),
        )
    )
    rows = db.execute(statement)
    return {account_id: AccountKeys(ledger_key, account_key) for account_id, ledger_key, account_key in rows}


def find_issued_amounts(
    db: Connection, organization_id: int, ledger_account_ids: Collection[int]
) -> dict[int, Decimal]:
    """The issued amount by account id: minted amounts, on a revolving account less burned amounts.

    Accounts without movements are left out.
    """
    supplies, accounts = ledger_account_supplies, ledger_accounts
    amount = func.sum(supplies.c.minted - case((accounts.c.is_revolving, supplies.c.burned), else_=literal(_ZERO)))
    statement = (
        select(supplies.c.ledger_account_id, amount)
        .join_from(
            supplies,
            accounts,
            is_same(accounts, supplies, "ledger_account_id"),
        )
        .where(supplies.c.organization_id == organization_id, supplies.c.ledger_account_id.in_(ledger_account_ids))
        .group_by(supplies.c.ledger_account_id)
    )
    return dict(map(tuple, db.execute(statement)))


def add_account(db: Connection, ledger: Ledger, values: Mapping[str, Any], now: datetime) -> LedgerAccount:
    """Insert an account; the first account of a ledger becomes its default, a later default account replaces it.

    Raises NameTaken for an alias that another account of the ledger has.
    """
    # Serializes choices of the ledger's default account; locked before any of its accounts.
    LEDGERS.lock(db, ledger)
    ledger_values = {"ledger_id": ledger.ledger_id}
    if values["is_default_account"]:
        _unmark_default_account(db, ledger)
    elif not has_row(db, is_same(ledger_accounts, ledger, "ledger_id")):
        ledger_values["is_default_account"] = True
    account = ACCOUNTS.add(db, ledger.organization_id, {**values, **ledger_values}, now)
    organizations.increment_configuration_version(db, ledger.organization_id)
    return account


def store_account(
    db: Connection, ledger: Ledger, account: LedgerAccount, values: Mapping[str, Any], now: datetime
) -> LedgerAccount:
    """Store new values of an account that `lock_account` has locked; as a new default, it replaces the current one.

    Raises NameTaken for an alias that another account of the ledger has.
    """
    if values.get("is_default_account") and not account.is_default_account:
        _unmark_default_account(db, ledger)
    changed_account = ACCOUNTS.store(db, account, values, now)
    organizations.increment_configuration_version(db, account.organization_id)
    return changed_account


def _unmark_default_account(db: Connection, ledger: Ledger) -> None:
    """Leave the ledger without a default account, before another account becomes the default."""
    db.execute(
        update(ledger_accounts)
        .where(is_same(ledger_accounts, ledger, "ledger_id"), ledger_accounts.c.is_default_account)
        .values(is_default_account=False)
    )


def has_movements(db: Connection, account: LedgerAccount) -> bool:
    """True if any amount was ever moved or reserved on the account."""
    is_of_account = is_same(ledger_transactions, account, "ledger_account_id")
    return has_row(db, is_of_account, ledger_transactions.c.amount > 0)


def has_pending(db: Connection, account: LedgerAccount) -> bool:
    """True if transactions of the account that wait for a capture hold an amount.

    All pending debits wait for a capture; pending credits do if they become available neither at a moment nor by an
    event.
    """
    balances, transactions = ledger_balances.c, ledger_transactions.c
    has_credit_to_capture = (
        select(literal(1))
        .where(
            is_same(ledger_transactions, account, "ledger_account_id"),
            transactions.to_wallet_id == balances.wallet_id,
            transactions.status == PENDING,
            transactions.available_at.is_(None),
            transactions.available_on.is_(None),
        )
        .correlate(ledger_balances)
        .exists()
    )
    return has_row(
        db,
        is_same(ledger_balances, account, "ledger_account_id"),
        or_(balances.pending_debit_balance > 0, and_(balances.pending_credit_balance > 0, has_credit_to_capture)),
    )


def start_tracking(db: Connection, account: LedgerAccount, key: str, now: datetime) -> None:
    """Give every balance of a locked account a lot without expiry, so that the lots add up to the balance.

    A transaction of zero with the systemUniqueKey `key` records the change. Raises LedgerAccountInUse while
    transactions are pending, since it would be unknown which lots they reserve.
    """
    if has_pending(db, account):
        raise LedgerAccountInUse("pointTrackingEnabled cannot change while transactions of the account are pending.")
    balances = ledger_balances.c
    transaction_id = add_mint_of_zero(
        db, account, system_unique_key=key, description="Point tracking begins", created_at=now, updated_at=now
    )
    lots_of_balances = select(
        balances.organization_id,
        balances.wallet_id,
        balances.ledger_account_id,
        literal(transaction_id),
        balances.current_balance,
        balances.current_balance,
        literal(now, ledger_lots.c.created_at.type),
    ).where(is_same(ledger_balances, account, "ledger_account_id"), balances.current_balance > 0)
    names = (
        "organization_id",
        "wallet_id",
        "ledger_account_id",
        "ledger_transaction_id",
        "amount",
        "remaining",
        "created_at",
    )
    db.execute(insert(ledger_lots).from_select(names, lots_of_balances.order_by(balances.wallet_id)))
