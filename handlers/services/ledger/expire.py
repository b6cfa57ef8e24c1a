"""Posts expiries: loaded balances are right without them, but records and supplies are not."""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from sqlalchemy import Connection

from domain.ledger.postings import Posting
from domain.organizations import Organization
from handlers.call import Execution
from handlers.services.unit_of_work.requests import open_unit
from handlers.services.unit_of_work.unit import UnitOfWork
from handlers.services.wallet_batches import MAX_DUE_ROWS, MAX_EXPIRED_LOTS, MAX_WALLETS
from persistence import idle_balances, ledger_lots


@dataclass(slots=True)
class PostedExpiries:
    """The expired amount of each account, and the wallets whose last points have expired in it.

    The next step begins after `last_wallet_id`.
    """

    last_wallet_id: int = 0
    amounts: dict[int, Decimal] = field(default_factory=dict)
    wallets: dict[int, set[int]] = field(default_factory=dict)


def expire_next(
    db: Connection, organization: Organization, after: int, now: datetime, limit: int = MAX_WALLETS
) -> PostedExpiries | None:
    """Post due expiries and ends of holds for the next `limit` wallets after the id `after`; return what has expired.

    If the wallets have more than `MAX_EXPIRED_LOTS` expired lots, the next step begins again with the first wallet that
    has any left. If they have more than `MAX_DUE_ROWS` points that expire by inactivity or become available, the last
    wallets are left to the next step. Returns None if nothing is due in any further wallet.
    """
    organization_id = organization.organization_id
    policies = idle_balances.find_idle_policies(db, organization)
    due_wallets = ledger_lots.find_next_wallets_due(db, organization_id, after, policies, now, limit)
    if not due_wallets:
        return None
    wallet_ids = ledger_lots.limit_due_rows(db, organization_id, due_wallets, policies, now, MAX_DUE_ROWS)
    execution = Execution(
        db=db, organization=organization, now=now, request_id="expire", max_expired_lots=MAX_EXPIRED_LOTS
    )
    unit = UnitOfWork(execution)
    account_ids = ledger_lots.find_due_accounts(db, organization_id, wallet_ids, now) | policies.keys()
    unit.lock_wallets(wallet_ids, account_ids)
    # Loading the balances posts what is due.
    with open_unit(unit, account_ids=account_ids):
        pass
    partly_expired_balances = unit.ledger.find_partly_expired()
    last_wallet_id = min((wallet_id - 1 for wallet_id, _ in partly_expired_balances), default=wallet_ids[-1])
    expiries = PostedExpiries(last_wallet_id)
    for step in unit.ledger.steps:
        if isinstance(step, Posting) and step.is_expiry and step.from_wallet_id is not None:
            account_id = step.account.ledger_account_id
            expiries.amounts[account_id] = expiries.amounts.get(account_id, Decimal(0)) + step.amount
            wallets = expiries.wallets.setdefault(account_id, set())
            if (step.from_wallet_id, account_id) not in partly_expired_balances:
                wallets.add(step.from_wallet_id)
    return expiries
