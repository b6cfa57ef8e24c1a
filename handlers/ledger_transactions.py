"""Lists of what moved (administration, "Ledger accounts, wallets, transactions" 4; integration 4.5.10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from domain.ledger.records import LedgerAccount
from domain.ledger.views import TransactionRow
from domain.members import Member
from handlers.call import Call
from handlers.operations import operation
from handlers.wire.base import instant_of, listed
from handlers.wire.ledger import TRANSACTION_ROW
from persistence import ledger_transactions
from persistence.paging import Page, Paged

# query parameter -> (filter, how its value is read)
_FILTERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "fromExternalEventDate": ("from_date", instant_of),
    "toExternalEventDate": ("to_date", instant_of),
    "fromLedgerTransactionId": ("from_id", int),
    "toLedgerTransactionId": ("to_id", int),
    "systemUniqueKey": ("system_unique_key", str),
    "walletId": ("wallet_id", int),
    "tags": ("tags", list),
    "ledgerAccountKey": ("ledger_account_key", str),
}


@operation("listLedgerTransactions", answer=listed(TRANSACTION_ROW))
def list_ledger_transactions(call: Call, account: LedgerAccount, query: Mapping[str, Any]) -> Paged[TransactionRow]:
    """A page of the rows of an account's transactions."""
    return ledger_transactions.rows_of_account(
        call.db, account.organization_id, account.ledger_account_id, _filters(query), Page.of(query)
    )


@operation("listMemberLedgerTransactions", answer=listed(TRANSACTION_ROW))
def list_member_ledger_transactions(call: Call, member: Member, query: Mapping[str, Any]) -> Paged[TransactionRow]:
    """A page of what moved in a member's wallet."""
    return ledger_transactions.rows_of_wallet(
        call.db, member.organization_id, member.wallet_id, _filters(query), Page.of(query)
    )


def _filters(query: Mapping[str, Any]) -> dict[str, Any]:
    return {name: read(query[wire]) for wire, (name, read) in _FILTERS.items() if wire in query}
