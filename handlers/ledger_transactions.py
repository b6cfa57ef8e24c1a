"""Ledger transactions (administration, "Ledger accounts, wallets, transactions"; integration 4.5.10)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from domain.calendar import instant_of
from domain.ledger.records import Ledger, LedgerAccount, TransactionIds, Wallet
from domain.ledger.views import TransactionRow
from domain.members import Member
from domain.problems import NotFound, Refusal
from handlers.call import Call
from handlers.messages.lists import listed_by_cursor
from handlers.operation import BatchHandler, operation
from handlers.schemas.ledger_transactions import (
    BatchedMovement,
    BurnRequest,
    Captures,
    ItemOutcome,
    MintRequest,
    MovementRequest,
    Releases,
    RevertBatch,
    RevertRequest,
    batch_response,
    batched_movements,
    movement,
    movements_of_set,
    partial_fiat_values,
    transactions,
)
from handlers.schemas.ledgers import TRANSACTION_ROW
from handlers.services.ledger.movements import Movement
from handlers.services.ledger.post_transactions import mint_and_read, post_and_read
from handlers.services.ledger.settle_pending import capture, release
from persistence import consumed_lots, ledger, ledger_transactions
from persistence.paging import Page, Paged

# query parameter -> (name of the filter, function that reads the value)
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


@operation("listLedgerTransactions", response=listed_by_cursor(TRANSACTION_ROW))
def list_ledger_transactions(call: Call, account: LedgerAccount, query: Mapping[str, Any]) -> Paged[TransactionRow]:
    """A page of the rows of an account's transactions."""
    page = ledger_transactions.find_rows_of_account(
        call.db, account.organization_id, account.ledger_account_id, _filters(query), Page.of(query)
    )
    return _page_at_present(call, page, query)


@operation("listMemberLedgerTransactions", response=listed_by_cursor(TRANSACTION_ROW))
def list_member_ledger_transactions(call: Call, member: Member, query: Mapping[str, Any]) -> Paged[TransactionRow]:
    """A page of the rows of transactions of a member's wallet."""
    page = ledger_transactions.find_rows_of_wallet(
        call.db, member.organization_id, member.wallet_id, _filters(query), Page.of(query)
    )
    return _page_at_present(call, page, query)


def _page_at_present(call: Call, page: Paged[TransactionRow], query: Mapping[str, Any]) -> Paged[TransactionRow]:
    """The page with the present state of its rows, and with lots if the query includes them.

    Points that have become available may still be stored as waiting, because no posting has made them available yet.
    """
    rows = [row.by_now(call.now) for row in page.results]
    if "lots" in query.get("include", ()) and rows:
        rows = consumed_lots.with_consumed_lots(call.db, call.organization.organization_id, rows)
    return page.with_results(rows)


def _filters(query: Mapping[str, Any]) -> dict[str, Any]:
    return {name: read(query[parameter]) for parameter, (name, read) in _FILTERS.items() if parameter in query}


@operation(
    "createLedgerTransaction", response=transactions, audit="ledger-transaction", batch=BatchHandler(post_and_read)
)
def create_ledger_transaction(call: Call, account: LedgerAccount, body: MovementRequest) -> Movement:
    """Mint, burn or transfer between wallets."""
    return movement(body, ledger_account_id=account.ledger_account_id)


@operation("createLedgerTransactionSet", body=movements_of_set, response=transactions, audit="ledger-transaction")
def create_ledger_transaction_set(call: Call, ledger: Ledger, body: list[Movement]) -> list[TransactionRow]:
    """Post mints, burns and transfers of one ledger, all or none."""
    return _post_all(call, [replace(movement_of_set, ledger_id=ledger.ledger_id) for movement_of_set in body])


def _post_all(call: Call, movements: Sequence[Movement]) -> list[TransactionRow]:
    """Post movements, all or none; return the rows of their transactions."""
    # Atomic: raises a refusal, so that every outcome is a list of rows.
    outcomes = post_and_read([call] * len(movements), movements, atomic=True)
    return [row for rows in outcomes if isinstance(rows, list) for row in rows]


@operation("revertLedgerTransaction", response=transactions, audit="ledger-transaction")
def revert_ledger_transaction(
    call: Call, account: LedgerAccount, transaction: TransactionIds, body: RevertRequest
) -> list[TransactionRow]:
    """Revert a transaction by a new one."""
    target = {"ledger_account_id": account.ledger_account_id, "reverts": transaction.ledger_transaction_id}
    return _post_all(call, [movement(body, **target)])


@operation("burnWalletPoints", response=transactions, audit="ledger-transaction", batch=BatchHandler(post_and_read))
def burn_wallet_points(call: Call, account: LedgerAccount, wallet: Wallet, body: BurnRequest) -> Movement:
    """Burn from a wallet."""
    return movement(body, ledger_account_id=account.ledger_account_id, from_wallet_id=wallet.wallet_id)


@operation("mintWalletPoints", response=transactions, audit="ledger-transaction", batch=BatchHandler(mint_and_read))
def mint_wallet_points(call: Call, ledger: Ledger, wallet: Wallet, body: MintRequest) -> Movement:
    """Mint into a wallet, on the default account of its ledger."""
    return movement(body, ledger_id=ledger.ledger_id, to_wallet_id=wallet.wallet_id)


@operation("captureLedgerTransactions", audit="ledger-transaction")
def capture_ledger_transactions(call: Call, account: LedgerAccount, body: Captures) -> Mapping[str, bool]:
    """Capture pending transactions, all or none."""
    capture(
        call, account, [(int(request.ledger_transaction_id), request.capture_amount) for request in body.transactions]
    )
    return {"ok": True}


@operation("releaseLedgerTransactions", audit="ledger-transaction")
def release_ledger_transactions(call: Call, account: LedgerAccount, body: Releases) -> Mapping[str, bool]:
    """Make waiting points available now, all or none."""
    release(call, account, [int(request.ledger_transaction_id) for request in body.transactions])
    return {"ok": True}


@operation("batchLedgerTransactions", body=batched_movements, response=batch_response, audit="ledger-transaction")
def batch_ledger_transactions(call: Call, body: list[BatchedMovement]) -> list[ItemOutcome]:
    """Post mints, burns, transfers and reverts: each individually, but the items of one `atomicSetId` all or none."""
    movements = [_movement_of(call, batch_item) for batch_item in body]
    identities = [
        {"index": index, "systemUniqueKey": batch_item.system_unique_key} for index, batch_item in enumerate(body)
    ]
    return [_with_key_of_transaction(outcome) for outcome in _post_batch(call, movements, identities)]


def _with_key_of_transaction(outcome: ItemOutcome) -> ItemOutcome:
    """The outcome of an item with the key of its transaction, which was generated if the item had none."""
    if not outcome.rows:
        return outcome
    return replace(outcome, identity={**outcome.identity, "systemUniqueKey": outcome.rows[0].system_unique_key})


def _movement_of(call: Call, item: BatchedMovement) -> Movement:
    """The item's movement, with a refusal if the item names another organization than the path."""
    if item.organization_id in (None, call.organization.organization_id):
        return item.movement
    detail = f"organizationId {item.organization_id} is not the organization of the path."
    return replace(item.movement, refusal=NotFound(detail))


@operation("batchRevertLedgerTransactions", response=batch_response, audit="ledger-transaction")
def batch_revert_ledger_transactions(call: Call, body: RevertBatch) -> list[ItemOutcome]:
    """Post reverts individually."""
    fiat_values = partial_fiat_values(body)
    movements = [
        Movement(
            reverts=int(transaction_id),
            allow_overdraft=body.allow_overdraft,
            burn_available=body.burn_available_balance,
            partial_fiat_value=fiat_values.get(transaction_id),
        )
        for transaction_id in body.transaction_ids
    ]
    identities = [{"ledgerTransactionId": transaction_id} for transaction_id in body.transaction_ids]
    return _post_batch(call, movements, identities)


def _post_batch(
    call: Call, movements: Sequence[Movement], identities: Sequence[Mapping[str, Any]]
) -> list[ItemOutcome]:
    """Post the movements of a batch; return the outcome of each with its rows and the keys of its account.

    `identities` are the fields that name each item in the response.
    """
    organization_id = call.organization.organization_id
    outcomes = post_and_read([call] * len(movements), movements)
    rows = [outcome if isinstance(outcome, list) else [] for outcome in outcomes]
    refused_reverts = {
        movement.reverts
        for movement, item_rows in zip(movements, rows, strict=True)
        if movement.reverts and not item_rows
    }
    accounts_of_reverted = {}
    if refused_reverts:
        transactions = ledger_transactions.TRANSACTIONS
        for transaction in transactions.find_all(call.db, organization_id, ledger_transaction_id=refused_reverts):
            accounts_of_reverted[transaction.ledger_transaction_id] = transaction.ledger_account_id
    account_ids = [
        item_rows[0].ledger_account_id if item_rows else _account_id_of_refused(movement, accounts_of_reverted)
        for movement, item_rows in zip(movements, rows, strict=True)
    ]
    keys = ledger.find_keys_of_accounts(call.db, organization_id, set(account_ids))
    return [
        ItemOutcome(
            identity=identity,
            account_keys=keys.get(account_id),
            rows=item_rows,
            refusal=outcome if isinstance(outcome, Refusal) else None,
        )
        for identity, account_id, item_rows, outcome in zip(identities, account_ids, rows, outcomes, strict=True)
    ]


def _account_id_of_refused(movement: Movement, accounts_of_reverted: Mapping[int, int]) -> int:
    """The id of the account that a refused movement is about; 0, the id of no account, if the movement names none.

    `accounts_of_reverted` has the accounts of existing transactions that were to be reverted.
    """
    if movement.reverts is not None:
        return accounts_of_reverted.get(movement.reverts, 0)
    return movement.ledger_account_id or 0
