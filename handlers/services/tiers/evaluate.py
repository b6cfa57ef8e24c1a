"""Evaluating tiers without movements of points: expired ones, or all."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from handlers.call import Execution
from handlers.services.configuration import configuration_of
from handlers.services.ledger.sessions import open_session, report, tiers_of_wallets
from handlers.services.members.lock_wallets import lock_wallets
from handlers.services.unit_of_work.derived_events import LedgerEvents
from handlers.services.unit_of_work.tier_points import open_tier_points
from persistence import member_tiers, organizations, posting

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
    configuration = configuration_of(db, organization)
    lock_wallets(db, organization, wallets)
    session = open_session(db, organization, wallets, configuration.accounts, now)
    posting.write_session(db, organization_id, session)
    tier_assignments, member_ids = tiers_of_wallets(db, configuration, wallets, now)
    also = configuration.accounts if everyone else ()
    # Earnings are as stored: expiries have not changed them.
    points = open_tier_points(db, organization_id, configuration.tier_schedules, session, wallets)
    events = LedgerEvents(configuration, session, tier_assignments, member_ids, lambda number: None, points).begin(also)
    member_tiers.move(db, organization_id, tier_assignments.changed, now)
    execution = Execution(db=db, organization=organization, now=now, request_id="evaluate-tiers")
    report(execution, events, "The tier was evaluated again.")
    return Evaluated(wallets[-1], len(member_ids), len(events))
