"""The points of members that tiers depend on, at every point of a unit of work."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from functools import partial

from sqlalchemy import Connection

from domain.ledger.postings import Earning, Pair
from domain.ledger.session import LedgerSession
from domain.tier_policies import TierPoints
from domain.tiers import Points, TierSchedule
from persistence import ledger_wallets

Earnings = Mapping[Pair, tuple[Earning, ...]]


class TierPointsReader:
    """The points of the members of a unit of work; `stored` are earlier earnings, if tiers depend on periods."""

    def __init__(self, session: LedgerSession, stored: Earnings) -> None:
        self._session = session
        self._stored = stored

    def of(self, wallet_id: int) -> Points:
        """The points of a member by account, at this point of the unit."""
        return partial(self._points, wallet_id)

    def _points(self, wallet_id: int, ledger_account_id: int) -> TierPoints:
        held = self._session.holding(wallet_id, ledger_account_id)
        before = self._stored.get((wallet_id, ledger_account_id), ())
        return TierPoints(held.current, held.earned, (*before, *self._session.earnings(wallet_id, ledger_account_id)))


def open_tier_points(
    db: Connection,
    organization_id: int,
    tier_schedules: Iterable[TierSchedule],
    session: LedgerSession,
    wallet_ids: Collection[int],
) -> TierPointsReader:
    """The points of locked wallets before the first flush of their session: at most one statement."""
    return TierPointsReader(session, earnings_of(db, organization_id, tier_schedules, wallet_ids, session.at))


def earnings_of(
    db: Connection,
    organization_id: int,
    tier_schedules: Iterable[TierSchedule],
    wallet_ids: Collection[int],
    at: datetime,
) -> Earnings:
    """The earnings of wallets that count at a moment or later, if tiers depend on a period: at most one statement."""
    since: dict[int, datetime] = {}
    for schedule in tier_schedules:
        if schedule.moves and schedule.policy.has_period and schedule.ledger_account_id is not None:
            earliest = schedule.policy.earliest(at)
            since[schedule.ledger_account_id] = min(earliest, since.get(schedule.ledger_account_id, earliest))
    return ledger_wallets.find_earnings(db, organization_id, wallet_ids, since) if since and wallet_ids else {}
