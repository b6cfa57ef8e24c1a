"""Points that are held for members for a time, for offline allowances and payments with points."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal

from domain.ledger.postings import Details, StoredTransaction
from domain.ledger.records import HoldState, LedgerAccount
from domain.members import Member
from domain.offline_allowances import OfflineAllowance
from domain.points_payments import PointsPayment
from handlers.call import Call
from handlers.services.ledger.post_transactions import MOVE_REASON
from handlers.services.unit_of_work.requests import open_unit
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import posting
from persistence.holds import find_hold_states, find_timed_holds
from persistence.ledger import ACCOUNTS

Hold = OfflineAllowance | PointsPayment


def hold_points(
    unit: UnitOfWork, member: Member, account: LedgerAccount, amount: Decimal, details: Details, held_until: datetime
) -> int:
    """Hold points of a locked member until `held_until` or their capture; return the id of the transaction."""
    with open_unit(unit, MOVE_REASON, account_ids={account.ledger_account_id}):
        account = unit.ledger.accounts[account.ledger_account_id]
        hold = unit.ledger.burn(account, member.wallet_id, amount, details, manual=True, held_until=held_until)
    return unit.id_of(hold)


@contextmanager
def open_hold(call: Call, hold: Hold) -> Iterator[UnitOfWork]:
    """Lock the member of a hold, and open a unit of work to move the held points; flush it at the end of the block."""
    unit = UnitOfWork(call)
    unit.lock(member_ids=[hold.member_id])
    with open_unit(unit, MOVE_REASON, account_ids={hold.ledger_account_id}):
        yield unit


def find_transaction(unit: UnitOfWork, hold: Hold) -> tuple[StoredTransaction, LedgerAccount]:
    """The transaction of a hold, and its account in the open unit."""
    transactions = posting.find_stored(unit.db, unit.organization_id, [hold.ledger_transaction_id])
    return transactions[hold.ledger_transaction_id], unit.ledger.accounts[hold.ledger_account_id]


def find_keys_and_states(
    call: Call, holds: Collection[Hold], until: int | None = None
) -> tuple[Mapping[int, str], Mapping[int, HoldState]]:
    """The keys of the holds' accounts by account id, and the states of the holds by transaction id; two statements.

    `until` is the transaction id of the last refund that counts, None if all count. Refunds are reverts of the holds.
    """
    organization_id = call.organization.organization_id
    states = find_hold_states(call.db, organization_id, [hold.ledger_transaction_id for hold in holds], until)
    account_ids = {hold.ledger_account_id for hold in holds}
    accounts = ACCOUNTS.find_all(call.db, organization_id, ledger_account_id=account_ids) if holds else []
    return {account.ledger_account_id: account.ledger_account_key for account in accounts}, states


def release_holds(call: Call, members: Collection[Member]) -> None:
    """Release all holds of allowances and payments on points of locked members, who will be deactivated or erased."""
    organization_id, wallet_ids = call.organization.organization_id, {member.wallet_id for member in members}
    accounts = find_timed_holds(call.db, organization_id, wallet_ids, call.now) if members else {}
    if not accounts:
        return
    unit = UnitOfWork(call)
    unit.lock(member_ids={member.member_id for member in members})
    with open_unit(unit, MOVE_REASON, account_ids=set(accounts.values())):
        for transaction in posting.find_stored(call.db, organization_id, accounts).values():
            unit.ledger.end_hold(transaction, unit.ledger.accounts[transaction.ledger_account_id], call.now)
