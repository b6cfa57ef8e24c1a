"""Ledgers, their accounts, and balances of wallets (administration, "Ledger accounts, wallets, transactions")."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from domain.ledger.records import Ledger, LedgerAccount, Wallet
from domain.ledger.views import DailyBalance, TransactionRow, WalletView
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import Changes, values_of, wrapped
from handlers.messages.lists import listed, results
from handlers.operation import operation
from handlers.schemas.ledger_transactions import transactions
from handlers.schemas.ledgers import (
    ACCOUNT,
    DAILY_BALANCE,
    LEDGER,
    NEW_ACCOUNT,
    WALLET,
    AccountSettings,
    LedgerProperties,
    NewAccount,
    days_of,
)
from handlers.services.ledger.accounts import create_account, update_account
from handlers.services.ledger.change_supply import SupplyChange, change_supply
from persistence import daily_balances, ledger_lots, ledger_transactions, ledger_wallets
from persistence import ledger as ledgers
from persistence.ledger import ACCOUNTS, LEDGERS
from persistence.paging import Paged
from persistence.rows import fields_of

_AUDITED_ACCOUNT = Audited("ledger-account", "ledger_account_id", NEW_ACCOUNT)


@operation("listLedgers", response=listed(LEDGER))
def list_ledgers(call: Call, query: Mapping[str, Any]) -> Paged[Any]:
    """A page of the organization's ledgers."""
    page = LEDGERS.find_page(call.db, call.organization.organization_id, query)
    return page.with_results([_ledger_values(call, result) for result in page.results])


@operation("createLedger", response=wrapped("ledger", LEDGER), audit=Audited("ledger", "ledger_id", LEDGER))
def create_ledger(call: Call, body: LedgerProperties) -> Mapping[str, Any]:
    """Add a ledger, which has no accounts yet."""
    values = {"ledger_key": call.new_key(), **values_of(body)}
    return _ledger_values(call, LEDGERS.add(call.db, call.organization.organization_id, values, call.now))


def _ledger_values(call: Call, ledger: Ledger) -> dict[str, Any]:
    """The fields of a ledger, and whether it is the organization's default."""
    record = {name: getattr(ledger, name) for name in fields_of(Ledger)}
    return {**record, "is_default": ledger.ledger_id == call.organization.default_ledger_id}


@operation("listLedgerAccounts", response=listed(ACCOUNT))
def list_ledger_accounts(call: Call, ledger: Ledger, query: Mapping[str, Any]) -> Paged[Any]:
    """A page of a ledger's accounts, each with its issued amount."""
    page = ACCOUNTS.find_page(call.db, ledger.organization_id, query, ledger_id=ledger.ledger_id)
    return page.with_results(_account_values(call, ledger, page.results))


@operation("createLedgerAccount", response=wrapped("ledgerAccount", ACCOUNT), audit=_AUDITED_ACCOUNT)
def create_ledger_account(call: Call, ledger: Ledger, body: NewAccount) -> Mapping[str, Any]:
    """Add an account to a ledger; the first account of a ledger is its default."""
    return _account_values(call, ledger, [create_account(call, ledger, asdict(body))])[0]


@operation(
    "updateLedgerAccount",
    response=wrapped("ledgerAccount", ACCOUNT),
    audit=_AUDITED_ACCOUNT.changing(is_found_by_handler=True),
)
def update_ledger_account(
    call: Call, ledger: Ledger, account: LedgerAccount, body: Changes[AccountSettings]
) -> Mapping[str, Any]:
    """Change the settings of an account.

    Settings that define the meaning of stored amounts are fixed once the account has amounts.
    """
    return _account_values(call, ledger, [update_account(call, ledger, account, body)])[0]


def _account_values(call: Call, ledger: Ledger, accounts: Sequence[LedgerAccount]) -> list[Mapping[str, Any]]:
    """The fields of a ledger's accounts, each with the key of the ledger and the account's issued amount."""
    issued_amounts = ledgers.find_issued_amounts(
        call.db, ledger.organization_id, [account.ledger_account_id for account in accounts]
    )
    return [
        {
            **{name: getattr(account, name) for name in fields_of(LedgerAccount)},
            "ledger_key": ledger.ledger_key,
            "issued": issued_amounts.get(account.ledger_account_id, 0),
        }
        for account in accounts
    ]


@operation("updateMaxSupply", response=transactions, audit="ledger-account")
def update_max_supply(call: Call, ledger: Ledger, account: LedgerAccount, body: SupplyChange) -> list[TransactionRow]:
    """Change the maximum supply of an account; the change is recorded as a transaction that moves nothing."""
    transaction_id = change_supply(call, ledger, account, body)
    return ledger_transactions.find_rows_as_created(call.db, account.organization_id, [transaction_id])[transaction_id]


@operation("getWallet", response=wrapped("wallet", WALLET))
def get_wallet(call: Call, account: LedgerAccount, wallet: Wallet, query: Mapping[str, Any]) -> WalletView:
    """The balance of a wallet in one account."""
    view = ledger_wallets.find_wallet_view(call.db, wallet, account, call.now, call.organization.timezone)
    if "lots" not in query.get("include", ()):
        return view
    return _with_lots(call, [view], {account.ledger_account_id: account})[0]


@operation("listWallets", response=results(WALLET, "wallets"))
def list_wallets(call: Call, ledger: Ledger, wallet: Wallet, query: Mapping[str, Any]) -> list[WalletView]:
    """The balances of a wallet in all accounts of its ledger."""
    views = ledger_wallets.find_wallet_views(call.db, wallet, call.now, call.organization.timezone)
    return _with_lots(call, views, _all_accounts(call, ledger)) if "lots" in query.get("include", ()) else views


def _with_lots(call: Call, views: list[WalletView], accounts: Mapping[int, LedgerAccount]) -> list[WalletView]:
    return ledger_lots.with_lots(call.db, call.organization, views, accounts, call.now)


def _all_accounts(call: Call, ledger: Ledger) -> dict[int, LedgerAccount]:
    accounts = ACCOUNTS.find_all(call.db, ledger.organization_id, ledger_id=ledger.ledger_id)
    return {account.ledger_account_id: account for account in accounts}


@operation("listDailyBalances", response=results(DAILY_BALANCE))
def list_daily_balances(call: Call, ledger: Ledger, wallet: Wallet, query: Mapping[str, Any]) -> list[DailyBalance]:
    """The balances of a wallet in all accounts of its ledger at the end of each day of a range."""
    organization = call.organization
    first_day, last_day = days_of(query, call.now.astimezone(organization.zone).date())
    views = ledger_wallets.find_wallet_views(call.db, wallet, call.now, organization.timezone)
    if not views:
        return []
    return daily_balances.find(call.db, organization, views, _all_accounts(call, ledger), first_day, last_day, call.now)
