"""Evaluating tiers without movements of points: expired ones, or all."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from handlers.call import Execution
from handlers.services.unit_of_work.evaluation import report_events
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import member_tiers, organizations

WALLETS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The numbers of members evaluated and of tiers changed."""

    last_wallet_id: int
    members: int
    moves: int


def evaluate_next(
    db: Connection, organization_id: int, after: int, now: datetime, *, everyone: bool, limit: int = WALLETS_AT_ONCE
) -> Evaluated | None:
    """Evaluate the tiers of the next members, by wallet id, who have an expired one; or of `everyone`.

    None when there are no more. Expiries of the members' points are posted first.
    """
    organization = organizations.find(db, organization_id)
    if organization is None:
        return None
    if everyone:
        wallets = member_tiers.next_wallets(db, organization_id, after, limit)
    else:
        wallets = member_tiers.next_wallets_lapsed(db, organization_id, after, now, limit)
    if not wallets:
        return None
    unit = UnitOfWork(Execution(db=db, organization=organization, now=now, request_id="evaluate-tiers"))
    accounts = unit.configuration.accounts
    unit.lock_wallets(wallets, accounts)
    moves = unit.open_for_request(account_ids=accounts, settled_accounts=accounts if everyone else ())
    report_events(unit, moves, "The tier was evaluated again.")
    unit.flush()
    return Evaluated(wallets[-1], len(unit.members), len(moves))
