"""Ledger transactions (administration, "Ledger accounts, wallets, transactions"; integration 4.5.10)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from domain.calendar import instant_of
from domain.ledger.records import Ledger, LedgerAccount, StoredTransaction, Wallet
from domain.ledger.refusals import UnknownLedgerAccount
from domain.ledger.views import TransactionRow
from domain.members import Member
from domain.problems import NotFound, Refusal
from handlers.call import Call
from handlers.messages.base import walked
from handlers.operation import BatchHandler, operation
from handlers.schemas.ledger_transactions import (
    BATCH_REVERT,
    BURN,
    CAPTURES,
    MINT,
    MOVEMENT,
    REVERT,
    BatchBody,
    BatchedMovement,
    BurnRequest,
    Captures,
    MintRequest,
    MovementRequest,
    Processed,
    RevertBatch,
    RevertRequest,
    SetBody,
    movement,
    partial_fiat_values,
    processed,
    transactions,
)
from handlers.schemas.ledgers import TRANSACTION_ROW
from handlers.services.ledger.post_transactions import (
    Movement,
    MovementOutcome,
    answered,
    capture,
    post,
)
from persistence import ledger, ledger_lots, ledger_transactions
from persistence.ledger import ACCOUNTS
from persistence.paging import Page, Paged

Rows = list[list[TransactionRow]]

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


@operation("listLedgerTransactions", answer=walked(TRANSACTION_ROW))
def list_ledger_transactions(call: Call, account: LedgerAccount, query: Mapping[str, Any]) -> Paged[TransactionRow]:
    """A page of the rows of an account's transactions."""
    page = ledger_transactions.rows_of_account(
        call.db, account.organization_id, account.ledger_account_id, _filters(query), Page.of(query)
    )
    return _with_lots(call, page, query)


@operation("listMemberLedgerTransactions", answer=walked(TRANSACTION_ROW))
def list_member_ledger_transactions(call: Call, member: Member, query: Mapping[str, Any]) -> Paged[TransactionRow]:
    """A page of the rows of transactions of a member's wallet."""
    page = ledger_transactions.rows_of_wallet(
        call.db, member.organization_id, member.wallet_id, _filters(query), Page.of(query)
    )
    return _with_lots(call, page, query)


def _with_lots(call: Call, page: Paged[TransactionRow], query: Mapping[str, Any]) -> Paged[TransactionRow]:
    if "lots" not in query.get("include", ()) or not page.results:
        return page
    rows = ledger_lots.with_consumed_lots(call.db, call.organization.organization_id, page.results)
    return page.showing(rows)


def _filters(query: Mapping[str, Any]) -> dict[str, Any]:
    return {name: read(query[wire]) for wire, (name, read) in _FILTERS.items() if wire in query}


Posted = list[Rows | Refusal | None]


def _post_each(calls: Sequence[Call], movements: Sequence[Movement]) -> Posted:
    """The rows of each call's movement, or its refusal; None for one that has to be run individually."""
    outcomes = post(calls, movements)
    posted = {
        position: outcome.ledger_transaction_id
        for position, outcome in enumerate(outcomes)
        if outcome is not None and outcome.ledger_transaction_id is not None
    }
    rows = answered(calls[0], [movements[position] for position in posted], [*posted.values()]) if posted else []
    rows_by_position = dict(zip(posted, rows, strict=True))
    return [
        [rows_by_position[position]] if position in rows_by_position else None if outcome is None else outcome.refusal
        for position, outcome in enumerate(outcomes)
    ]


@operation(
    "createLedgerTransaction",
    body=MOVEMENT,
    answer=transactions,
    audit="ledger-transaction",
    batch=BatchHandler(_post_each),
)
def create_ledger_transaction(call: Call, account: LedgerAccount, body: MovementRequest) -> Movement:
    """Mint, burn or transfer between wallets."""
    return movement(body, ledger_account_id=account.ledger_account_id)


@operation("createLedgerTransactionSet", body=SetBody(), answer=transactions, audit="ledger-transaction")
def create_ledger_transaction_set(call: Call, ledger: Ledger, body: list[Movement]) -> Rows:
    """Post mints, burns and transfers of one ledger, all or none."""
    return _post(call, [replace(asked, ledger_id=ledger.ledger_id) for asked in body])


@operation("revertLedgerTransaction", body=REVERT, answer=transactions, audit="ledger-transaction")
def revert_ledger_transaction(
    call: Call, account: LedgerAccount, transaction: StoredTransaction, body: RevertRequest
) -> Rows:
    """Revert a transaction by a new one."""
    addressed = {"ledger_account_id": account.ledger_account_id, "reverts": transaction.ledger_transaction_id}
    return _post(call, [movement(body, **addressed)])


@operation(
    "burnWalletPoints",
    body=BURN,
    answer=transactions,
    audit="ledger-transaction",
    batch=BatchHandler(_post_each),
)
def burn_wallet_points(call: Call, account: LedgerAccount, wallet: Wallet, body: BurnRequest) -> Movement:
    """Burn from a wallet."""
    return movement(body, ledger_account_id=account.ledger_account_id, from_wallet_id=wallet.wallet_id)


def _mint_each(calls: Sequence[Call], movements: Sequence[Movement]) -> Posted:
    """Post mints on the default accounts of their ledgers."""
    organization_id, ledger_ids = calls[0].organization.organization_id, {asked.ledger_id for asked in movements}
    accounts = {
        account.ledger_id: account.ledger_account_id
        for account in ACCOUNTS.find_all(calls[0].db, organization_id, ledger_id=ledger_ids, is_default_account=True)
    }
    return _post_each(calls, [_on_account(asked, accounts.get(asked.ledger_id or 0)) for asked in movements])


def _on_account(asked: Movement, ledger_account_id: int | None) -> Movement:
    refusal = None
    if ledger_account_id is None:
        refusal = UnknownLedgerAccount(f"The ledger {asked.ledger_id} has no default account.")
    return replace(asked, ledger_account_id=ledger_account_id, ledger_id=None, refusal=refusal)


@operation(
    "mintWalletPoints",
    body=MINT,
    answer=transactions,
    audit="ledger-transaction",
    batch=BatchHandler(_mint_each),
)
def mint_wallet_points(call: Call, ledger: Ledger, wallet: Wallet, body: MintRequest) -> Movement:
    """Mint into a wallet, on the default account of its ledger."""
    return movement(body, ledger_id=ledger.ledger_id, to_wallet_id=wallet.wallet_id)


def _post(call: Call, movements: Sequence[Movement]) -> Rows:
    outcomes = post([call] * len(movements), movements, atomic=True)
    return answered(call, movements, [outcome.ledger_transaction_id or 0 for outcome in outcomes if outcome])


@operation("captureLedgerTransactions", body=CAPTURES, audit="ledger-transaction")
def capture_ledger_transactions(call: Call, account: LedgerAccount, body: Captures) -> Mapping[str, bool]:
    """Capture pending transactions, all or none."""
    capture(call, account, [(int(one.ledger_transaction_id), one.capture_amount) for one in body.transactions])
    return {"ok": True}


@operation("batchLedgerTransactions", body=BatchBody(), answer=processed, audit="ledger-transaction")
def batch_ledger_transactions(call: Call, body: list[BatchedMovement]) -> list[Processed]:
    """Post mints, burns, transfers and reverts, each on its own or together with those of its set."""
    movements = [_in_organization(call, batch_item) for batch_item in body]
    identities = [
        {"index": index, "systemUniqueKey": batch_item.system_unique_key} for index, batch_item in enumerate(body)
    ]
    done = _processed(call, movements, identities)
    return [
        replace(item, identity={**item.identity, "systemUniqueKey": item.rows[0].system_unique_key})
        if item.rows
        else item
        for item in done
    ]


def _in_organization(call: Call, item: BatchedMovement) -> Movement:
    """The item's movement; refused if it names another organization than the path."""
    if item.organization_id in (None, call.organization.organization_id):
        return item.movement
    return replace(item.movement, refusal=NotFound(f"organizationId {item.organization_id} is not that of the path."))


@operation("batchRevertLedgerTransactions", body=BATCH_REVERT, answer=processed, audit="ledger-transaction")
def batch_revert_ledger_transactions(call: Call, body: RevertBatch) -> list[Processed]:
    """Post reverts, each on its own."""
    fiat = partial_fiat_values(body)
    movements = [
        Movement(
            reverts=int(transaction_id),
            allow_overdraft=body.allow_overdraft,
            burn_available=body.burn_available_balance,
            partial_fiat_value=fiat.get(transaction_id),
        )
        for transaction_id in body.transaction_ids
    ]
    identities = [{"ledgerTransactionId": transaction_id} for transaction_id in body.transaction_ids]
    return _processed(call, movements, identities)


def _processed(call: Call, movements: Sequence[Movement], identities: Sequence[Mapping[str, Any]]) -> list[Processed]:
    """Post the items of a batch; returns them with their rows, all read at once."""
    outcomes = [outcome or MovementOutcome() for outcome in post([call] * len(movements), movements)]
    posted = [
        (requested, outcome.ledger_transaction_id)
        for requested, outcome in zip(movements, outcomes, strict=True)
        if outcome.ledger_transaction_id is not None
    ]
    posted_rows = iter(
        answered(call, [requested for requested, _ in posted], [transaction_id for _, transaction_id in posted])
    )
    rows = [next(posted_rows) if outcome.ledger_transaction_id is not None else [] for outcome in outcomes]
    account_ids = [
        of_item[0].ledger_account_id if of_item else requested.ledger_account_id or 0
        for requested, of_item in zip(movements, rows, strict=True)
    ]
    keys = ledger.keys_of_accounts(call.db, call.organization.organization_id, set(account_ids))
    return [
        Processed(
            identity=identity,
            account_keys=keys.get(account_id),
            rows=of_item,
            refusal=outcome.refusal,
        )
        for identity, account_id, of_item, outcome in zip(identities, account_ids, rows, outcomes, strict=True)
    ]
