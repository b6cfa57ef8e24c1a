"""Points that are held for members for a time: released when the members can use them no more."""

from collections.abc import Collection

from domain.members import Member
from domain.offline_allowances import OfflineAllowance
from domain.points_payments import PointsPayment
from handlers.call import Call
from handlers.services.configuration import configuration_of
from handlers.services.ledger.post_transactions import MOVED
from handlers.services.unit_of_work.requests import open_unit
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import posting
from persistence.holds import find_held
from persistence.offline_allowances import ALLOWANCES
from persistence.points_payments import PAYMENTS


def release_holds(call: Call, members: Collection[Member]) -> None:
    """Release what offline allowances and payments hold for members who are about to be deactivated or erased."""
    accounts = configuration_of(call.db, call.organization).accounts.values()
    if not members or all(account.offline_allowance is None and account.redemption is None for account in accounts):
        return
    unit = UnitOfWork(call)
    member_ids = {member.member_id for member in members}
    allowances = find_held(call.db, ALLOWANCES, unit.organization_id, member_ids, call.now)
    payments = find_held(call.db, PAYMENTS, unit.organization_id, member_ids, call.now)
    holds: list[OfflineAllowance | PointsPayment] = [*allowances, *payments]
    if not holds:
        return
    unit.lock(member_ids={hold.member_id for hold in holds})
    with open_unit(unit, MOVED, account_ids={hold.ledger_account_id for hold in holds}):
        ids = [hold.ledger_transaction_id for hold in holds]
        for transaction in posting.find_stored(call.db, unit.organization_id, ids).values():
            unit.ledger.end_hold(transaction, unit.ledger.accounts[transaction.ledger_account_id], call.now)
