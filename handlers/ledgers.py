"""Ledgers, their accounts, and what wallets hold (administration, "Ledger accounts, wallets, transactions")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from domain.ledger.accounts import complete_settings, refuse_changes_in_use
from domain.ledger.records import Ledger, LedgerAccount, Wallet
from domain.ledger.views import WalletView
from handlers.call import Call
from handlers.operations import operation
from handlers.wire.base import listed, results, wrapped
from handlers.wire.ledger import ACCOUNT, ACCOUNT_SETTINGS, LEDGER, NEW_ACCOUNT, NEW_LEDGER, WALLET
from persistence import ledger as ledgers
from persistence.paging import Page, Paged
from persistence.rows import fields_of

# query parameter -> column of the account
_ACCOUNT_FILTERS = {"name": "name", "alias": "alias", "ledgerAccountKey": "ledger_account_key"}


@operation("listLedgers", answer=listed(LEDGER))
def list_ledgers(call: Call, query: Mapping[str, Any]) -> Paged[Any]:
    """A page of the organization's ledgers."""
    found = ledgers.find_ledgers(call.db, call.organization.organization_id, Page.of(query))
    return Paged(found.total_count, found.page, found.limit, [_ledger(call, each) for each in found.results])


@operation("createLedger", body=NEW_LEDGER, answer=wrapped("ledger", LEDGER))
def create_ledger(call: Call, body: dict[str, Any]) -> Mapping[str, Any]:
    """Add a ledger without accounts."""
    stamps = {"created_at": call.now, "updated_at": call.now}
    added = ledgers.add_ledger(call.db, call.organization.organization_id, ledger_key=call.new_key(), **stamps, **body)
    return _ledger(call, added)


def _ledger(call: Call, ledger: Ledger) -> dict[str, Any]:
    record = {name: getattr(ledger, name) for name in fields_of(Ledger)}
    return {**record, "is_default": ledger.ledger_id == call.organization.default_ledger_id}


@operation("listLedgerAccounts", answer=listed(ACCOUNT))
def list_ledger_accounts(call: Call, ledger: Ledger, query: Mapping[str, Any]) -> Paged[Any]:
    """A page of a ledger's accounts, with what each has issued."""
    filters = {column: query[name] for name, column in _ACCOUNT_FILTERS.items() if name in query}
    found = ledgers.find_accounts(call.db, ledger, Page.of(query), filters)
    return Paged(found.total_count, found.page, found.limit, _accounts(call, ledger, found.results))


@operation("createLedgerAccount", body=NEW_ACCOUNT, answer=wrapped("ledgerAccount", ACCOUNT))
def create_ledger_account(call: Call, ledger: Ledger, body: dict[str, Any]) -> Mapping[str, Any]:
    """Add a unit of value to a ledger; the first account of a ledger is its default."""
    account = ledgers.add_account(
        call.db,
        ledger,
        ledger_account_key=call.new_key(),
        created_at=call.now,
        updated_at=call.now,
        **complete_settings(body),
    )
    return _accounts(call, ledger, [account])[0]


@operation("updateLedgerAccount", body=ACCOUNT_SETTINGS, answer=wrapped("ledgerAccount", ACCOUNT))
def update_ledger_account(
    call: Call, ledger: Ledger, account: LedgerAccount, body: dict[str, Any]
) -> Mapping[str, Any]:
    """Replace the settings of an account; what gives stored amounts their meaning is fixed once there are any."""
    account = ledgers.lock_account(call.db, ledger, account)
    settings = complete_settings(body, account)
    if ledgers.has_movements(call.db, account):
        refuse_changes_in_use(account, settings)
        if settings["point_tracking_enabled"] and not account.point_tracking_enabled:
            ledgers.start_tracking(call.db, account, call.new_key(), call.now)
    changed = ledgers.change_account(call.db, ledger, account, updated_at=call.now, **settings)
    return _accounts(call, ledger, [changed])[0]


def _accounts(call: Call, ledger: Ledger, accounts: Sequence[LedgerAccount]) -> list[Mapping[str, Any]]:
    issued = ledgers.issued(call.db, ledger.organization_id, [each.ledger_account_id for each in accounts])
    return [
        {
            **{name: getattr(each, name) for name in fields_of(LedgerAccount)},
            "ledger_key": ledger.ledger_key,
            "issued": issued.get(each.ledger_account_id, 0),
        }
        for each in accounts
    ]


@operation("getWallet", answer=wrapped("wallet", WALLET))
def get_wallet(call: Call, account: LedgerAccount, wallet: Wallet) -> WalletView:
    """What a wallet holds of one account."""
    return ledgers.wallet_view(call.db, wallet, account, call.now)


@operation("listWallets", answer=results(WALLET, "wallets"))
def list_wallets(call: Call, wallet: Wallet) -> list[WalletView]:
    """What a wallet holds of every account of its ledger."""
    return ledgers.wallet_views(call.db, wallet, call.now)
