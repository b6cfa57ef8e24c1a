"""Ledgers, their accounts and wallets; holdings are shown without expired value."""

from collections.abc import Collection, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, and_, case, func, insert, literal, or_, select, update

from domain.ledger.accounts import LedgerAccountInUse
from domain.ledger.records import Ledger, LedgerAccount
from domain.problems import NameTaken
from persistence import organizations
from persistence.ledger_transactions import add_zero
from persistence.paging import Page, Paged, paged
from persistence.rows import AnySelect, add, change, columns_of, records, with_external_key
from persistence.tables.ledger import (
    ledger_account_supplies,
    ledger_accounts,
    ledger_balances,
    ledger_lots,
    ledger_transactions,
    ledgers,
)

LEDGER_ORDER_COLUMNS = {
    "ledgerId": ledgers.c.ledger_id,
    "name": ledgers.c.name,
    "createdAt": ledgers.c.created_at,
    "updatedAt": ledgers.c.updated_at,
}
ACCOUNT_ORDER_COLUMNS = {
    "ledgerAccountId": ledger_accounts.c.ledger_account_id,
    "name": ledger_accounts.c.name,
    "alias": ledger_accounts.c.alias,
    "active": ledger_accounts.c.active,
    "createdAt": ledger_accounts.c.created_at,
    "updatedAt": ledger_accounts.c.updated_at,
}

_ZERO = Decimal(0)


def find_ledger(db: Connection, organization_id: int, ledger_id: int) -> Ledger | None:
    """The ledger with this id."""
    existing = find_all_ledgers(db, organization_id, [ledger_id])
    return existing[0] if existing else None


def find_all_ledgers(db: Connection, organization_id: int, ledger_ids: Collection[int]) -> list[Ledger]:
    """The existing ledgers among these, in no certain order."""
    is_listed = ledgers.c.ledger_id.in_(list(ledger_ids))
    statement = select(*columns_of(ledgers, Ledger)).where(ledgers.c.organization_id == organization_id, is_listed)
    return records(Ledger, db.execute(statement))


def find_ledgers(db: Connection, organization_id: int, page: Page, *, external_key: str | None = None) -> Paged[Ledger]:
    """A page of the organization's ledgers."""
    conditions = [ledgers.c.organization_id == organization_id, *with_external_key(ledgers, external_key)]
    return paged(db, Ledger, ledgers, conditions, page, ledgers.c.ledger_id, LEDGER_ORDER_COLUMNS)


def add_ledger(db: Connection, organization_id: int, **values: Any) -> Ledger:
    """Insert a ledger."""
    return add(db, ledgers, Ledger, {"organization_id": organization_id, **values})


def find_account(db: Connection, organization_id: int, ledger_account_id: int) -> LedgerAccount | None:
    """The ledger account with this id."""
    existing = find_all_accounts(db, organization_id, [ledger_account_id])
    return existing[0] if existing else None


def find_all_accounts(db: Connection, organization_id: int, ledger_account_ids: Collection[int]) -> list[LedgerAccount]:
    """The existing ledger accounts among these, in no certain order."""
    is_listed = ledger_accounts.c.ledger_account_id.in_(list(ledger_account_ids))
    return records(LedgerAccount, db.execute(_accounts(organization_id, is_listed)))


def find_default_account(db: Connection, organization_id: int, ledger_id: int) -> LedgerAccount | None:
    """The default account of a ledger, if it has one."""
    existing = find_default_accounts(db, organization_id, [ledger_id])
    return existing[0] if existing else None


def find_default_accounts(db: Connection, organization_id: int, ledger_ids: Collection[int]) -> list[LedgerAccount]:
    """The default accounts of ledgers, as far as they have one; in no certain order."""
    conditions = ledger_accounts.c.ledger_id.in_(list(ledger_ids)), ledger_accounts.c.is_default_account
    return records(LedgerAccount, db.execute(_accounts(organization_id, *conditions)))


def lock_account(db: Connection, ledger: Ledger, account: LedgerAccount) -> LedgerAccount:
    """The account as it is now, locked so that nothing is posted to it until the transaction ends."""
    lock_ledger(db, ledger)
    address = ledger_accounts.c.ledger_account_id == account.ledger_account_id
    return LedgerAccount(*db.execute(_accounts(account.organization_id, address).with_for_update()).one())


def _accounts(organization_id: int, *conditions: Any) -> AnySelect:
    columns = columns_of(ledger_accounts, LedgerAccount)
    return select(*columns).where(ledger_accounts.c.organization_id == organization_id, *conditions)


def find_accounts(
    db: Connection, ledger: Ledger, page: Page, filters: Mapping[str, Any] | None = None
) -> Paged[LedgerAccount]:
    """A page of a ledger's accounts; `filters` are columns with their required values."""
    conditions = [
        ledger_accounts.c.organization_id == ledger.organization_id,
        ledger_accounts.c.ledger_id == ledger.ledger_id,
        *(ledger_accounts.c[name] == value for name, value in (filters or {}).items()),
    ]
    return paged(
        db,
        LedgerAccount,
        ledger_accounts,
        conditions,
        page,
        ledger_accounts.c.ledger_account_id,
        ACCOUNT_ORDER_COLUMNS,
    )


def keys_of_accounts(
    db: Connection, organization_id: int, ledger_account_ids: Collection[int]
) -> dict[int, tuple[str, str]]:
    """The ledger's key and the account's of each account, by id."""
    statement = (
        select(ledger_accounts.c.ledger_account_id, ledgers.c.ledger_key, ledger_accounts.c.ledger_account_key)
        .join_from(
            ledger_accounts,
            ledgers,
            and_(
                ledgers.c.organization_id == ledger_accounts.c.organization_id,
                ledgers.c.ledger_id == ledger_accounts.c.ledger_id,
            ),
        )
        .where(
            ledger_accounts.c.organization_id == organization_id,
            ledger_accounts.c.ledger_account_id.in_(ledger_account_ids),
        )
    )
    return {row[0]: (row[1], row[2]) for row in db.execute(statement)}


def issued(db: Connection, organization_id: int, ledger_account_ids: Collection[int]) -> dict[int, Decimal]:
    """The issued amount of each account: minted less, on a revolving account, burned; absent without movements."""
    supplies, accounts = ledger_account_supplies, ledger_accounts
    amount = func.sum(supplies.c.minted - case((accounts.c.is_revolving, supplies.c.burned), else_=literal(_ZERO)))
    statement = (
        select(supplies.c.ledger_account_id, amount)
        .join_from(
            supplies,
            accounts,
            and_(
                accounts.c.organization_id == supplies.c.organization_id,
                accounts.c.ledger_account_id == supplies.c.ledger_account_id,
            ),
        )
        .where(supplies.c.organization_id == organization_id, supplies.c.ledger_account_id.in_(ledger_account_ids))
        .group_by(supplies.c.ledger_account_id)
    )
    return {row[0]: row[1] for row in db.execute(statement)}


def add_account(db: Connection, ledger: Ledger, **values: Any) -> LedgerAccount:
    """Insert an account; the first of a ledger becomes its default, a later one marked as default replaces it.

    Raises NameTaken for an alias that another account of the ledger has.
    """
    lock_ledger(db, ledger)
    owned = {"organization_id": ledger.organization_id, "ledger_id": ledger.ledger_id}
    if values["is_default_account"]:
        _make_room_for_default(db, ledger)
    elif not _has_accounts(db, ledger):
        values["is_default_account"] = True
    account = add(db, ledger_accounts, LedgerAccount, {**owned, **values}, _alias_taken(values))
    organizations.raise_configuration_version(db, ledger.organization_id)
    return account


def change_account(db: Connection, ledger: Ledger, account: LedgerAccount, **values: Any) -> LedgerAccount:
    """Change an account that `lock_account` has locked; otherwise as `add_account`."""
    if values.get("is_default_account") and not account.is_default_account:
        _make_room_for_default(db, ledger)
    address = {"organization_id": account.organization_id, "ledger_account_id": account.ledger_account_id}
    changed = change(db, ledger_accounts, LedgerAccount, address, values, _alias_taken(values))
    organizations.raise_configuration_version(db, account.organization_id)
    return changed


def lock_ledger(db: Connection, ledger: Ledger) -> None:
    """Serialize choices of the ledger's default account; taken before any of its accounts."""
    statement = select(ledgers.c.ledger_id).where(
        ledgers.c.organization_id == ledger.organization_id, ledgers.c.ledger_id == ledger.ledger_id
    )
    db.execute(statement.with_for_update(key_share=True))


def _has_accounts(db: Connection, ledger: Ledger) -> bool:
    accounts = ledger_accounts.c
    of_ledger = (accounts.organization_id == ledger.organization_id, accounts.ledger_id == ledger.ledger_id)
    return bool(db.execute(select(select(literal(1)).where(*of_ledger).exists())).scalar())


def _make_room_for_default(db: Connection, ledger: Ledger) -> None:
    db.execute(
        update(ledger_accounts)
        .where(
            ledger_accounts.c.organization_id == ledger.organization_id,
            ledger_accounts.c.ledger_id == ledger.ledger_id,
            ledger_accounts.c.is_default_account,
        )
        .values(is_default_account=False)
    )


def _alias_taken(values: Mapping[str, Any]) -> dict[str, NameTaken]:
    return {"uq_ledger_accounts_alias": NameTaken(f"The ledger has an account with the alias {values.get('alias')}.")}


def has_movements(db: Connection, account: LedgerAccount) -> bool:
    """True if any amount was ever moved, or set aside, on the account."""
    transactions = ledger_transactions.c
    moved = (
        select(literal(1))
        .where(
            transactions.organization_id == account.organization_id,
            transactions.ledger_account_id == account.ledger_account_id,
            transactions.amount > 0,
        )
        .exists()
    )
    return bool(db.execute(select(moved)).scalar())


def has_pending(db: Connection, account: LedgerAccount) -> bool:
    """True if pending transactions of the account hold anything."""
    balances = ledger_balances.c
    pending = (
        select(literal(1))
        .where(
            balances.organization_id == account.organization_id,
            balances.ledger_account_id == account.ledger_account_id,
            or_(balances.pending_debit_balance > 0, balances.pending_credit_balance > 0),
        )
        .exists()
    )
    return bool(db.execute(select(pending)).scalar())


def start_tracking(db: Connection, account: LedgerAccount, key: str, now: datetime) -> None:
    """Give every balance of a locked account a lot without expiry, so that the lots cover what wallets hold.

    A zero-amount transaction named `key` records it. Raises LedgerAccountInUse while transactions are pending:
    nobody could tell which lots they have set aside.
    """
    if has_pending(db, account):
        raise LedgerAccountInUse("pointTrackingEnabled cannot change while transactions of the account are pending.")
    balances = ledger_balances.c
    of_account = (
        balances.organization_id == account.organization_id,
        balances.ledger_account_id == account.ledger_account_id,
    )
    transaction_id = add_zero(
        db, account, system_unique_key=key, description="Point tracking begins", created_at=now, updated_at=now
    )
    held = select(
        balances.organization_id,
        balances.wallet_id,
        balances.ledger_account_id,
        literal(transaction_id),
        balances.current_balance,
        balances.current_balance,
        literal(now, ledger_lots.c.created_at.type),
    ).where(*of_account, balances.current_balance > 0)
    names = (
        "organization_id",
        "wallet_id",
        "ledger_account_id",
        "ledger_transaction_id",
        "amount",
        "remaining",
        "created_at",
    )
    db.execute(insert(ledger_lots).from_select(names, held.order_by(balances.wallet_id)))
