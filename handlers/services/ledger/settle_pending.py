"""Settles pending transactions by request: captures them, or makes waiting mints available early."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal

from domain.event_types import POINTS_AVAILABLE
from domain.ledger.postings import StoredTransaction
from domain.ledger.records import LedgerAccount
from domain.ledger.refusals import UnknownLedgerTransaction
from domain.problems import InvalidRequest
from handlers.call import Call
from handlers.services.ledger.post_transactions import MOVE_REASON, wallets_of
from handlers.services.unit_of_work.requests import open_unit
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import posting


def capture(call: Call, account: LedgerAccount, amounts: Sequence[tuple[int, Decimal | None]]) -> None:
    """Capture pending transactions of the account, all or none; raises the first refusal.

    `amounts` has the id of each transaction, and the amount to capture (None for all of it).
    """
    with _open_pending(call, account, [transaction_id for transaction_id, _ in amounts]) as (unit, transactions):
        for index, (transaction, (_, amount)) in enumerate(zip(transactions, amounts, strict=True)):
            try:
                current_account = unit.ledger.accounts[account.ledger_account_id]
                unit.ledger.capture(transaction, current_account, amount, amount_field="captureAmount")
            except InvalidRequest as invalid:
                faults = [replace(fault, pointer=f"/transactions/{index}{fault.pointer}") for fault in invalid.faults]
                raise InvalidRequest(faults) from invalid
            _add_to_audit_log(call, transaction, {"isPending": False, "captureAmount": amount})


def release(call: Call, account: LedgerAccount, transaction_ids: Sequence[int]) -> None:
    """Make waiting mints of the account available now, all or none; raises the first refusal."""
    # The event about available points is reported even if the configuration does not use it.
    with _open_pending(call, account, transaction_ids, reported_types=(POINTS_AVAILABLE,)) as (unit, transactions):
        for transaction in posting.with_orders(call.db, unit.organization_id, transactions):
            unit.ledger.make_available(transaction, unit.ledger.accounts[account.ledger_account_id], call.now)
            _add_to_audit_log(call, transaction, {"isPending": False, "availableAt": call.now})


@contextmanager
def _open_pending(
    call: Call, account: LedgerAccount, transaction_ids: Collection[int], reported_types: Collection[str] = ()
) -> Iterator[tuple[UnitOfWork, list[StoredTransaction]]]:
    """Lock the wallets of pending transactions, and open a unit of work; flush it at the end of the block.

    Yields the unit and the transactions. `reported_types` is as in `UnitOfWork`. Raises UnknownLedgerTransaction.
    """
    unit = UnitOfWork(call, reported_types=reported_types)
    account_ids = {account.ledger_account_id}
    transactions = posting.find_stored(call.db, unit.organization_id, set(transaction_ids))
    unit.lock_wallets(set().union(*map(wallets_of, transactions.values())), account_ids)
    # Read again under the lock, since another transaction may have settled them.
    transactions = posting.find_stored(call.db, unit.organization_id, set(transaction_ids))
    with open_unit(unit, MOVE_REASON, account_ids=account_ids):
        for transaction_id in transaction_ids:
            transaction = transactions.get(transaction_id)
            if transaction is None or transaction.ledger_account_id != account.ledger_account_id:
                raise UnknownLedgerTransaction(f"The account has no transaction {transaction_id}.")
        yield unit, [transactions[transaction_id] for transaction_id in transaction_ids]


def _add_to_audit_log(call: Call, transaction: StoredTransaction, after: dict[str, object]) -> None:
    """Add an entry to the audit log about a transaction that is no longer pending."""
    call.audit.add(
        "ledger-transaction",
        transaction.ledger_transaction_id,
        before={"isPending": True},
        after=after,
        wallet_ids=(transaction.from_wallet_id, transaction.to_wallet_id),
    )
