"""The progress of the notices of expiring points, and the wallets and amounts that they announce."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from domain.ledger.notices import NoticeSchedule
from domain.ledger.records import LedgerAccount
from domain.organizations import Organization
from persistence import expiring_points, idle_balances
from persistence.connections import fetch_rows
from persistence.rows import as_json

# The precision of moments in the database.
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class NoticeProgress:
    """The notices of an account that are due until `done_until` are reported.

    If `moment` is not None, the notices due at this later moment are reported for the wallets up to `after_wallet_id`.
    """

    done_until: datetime
    moment: datetime | None = None
    after_wallet_id: int = 0


_BEGIN = """
INSERT INTO expiry_notices (organization_id, ledger_account_id, done_until, after_wallet_id)
VALUES (%s, %s, %s, 0) ON CONFLICT DO NOTHING
"""

_PROGRESS = """
SELECT done_until, moment, after_wallet_id FROM expiry_notices WHERE organization_id = %s AND ledger_account_id = %s
"""

_STORE = """
UPDATE expiry_notices SET done_until = %s, moment = %s, after_wallet_id = %s
WHERE organization_id = %s AND ledger_account_id = %s
"""

# The wallets whose lots, or whose idle balance, may expire in one of the ranges.
_WALLETS = f"""
SELECT wallet_id FROM (
    (SELECT DISTINCT l.wallet_id FROM ledger_lots l
     JOIN jsonb_to_recordset(%(expiry_ranges)s::jsonb) AS w(begins timestamptz, ends timestamptz)
        ON l.expires_at >= w.begins AND l.expires_at < w.ends
            OR l.kept_until >= w.begins AND l.kept_until < w.ends
     WHERE l.organization_id = %(organization_id)s AND l.ledger_account_id = %(ledger_account_id)s
        AND l.wallet_id > %(after)s AND l.remaining > 0
     ORDER BY l.wallet_id LIMIT %(limit)s)
    UNION
    (SELECT DISTINCT b.wallet_id FROM ledger_balances b
     JOIN jsonb_to_recordset(%(policies)s::jsonb) AS {idle_balances.POLICIES} USING (ledger_account_id)
     WHERE b.organization_id = %(organization_id)s AND b.wallet_id > %(after)s
        AND b.current_balance > b.pending_debit_balance
        AND {idle_balances.IDLE_SINCE} > p.since AND {idle_balances.IDLE_SINCE} <= p.until
     ORDER BY b.wallet_id LIMIT %(limit)s)
) expiring ORDER BY wallet_id LIMIT %(limit)s
"""

_FIRST_EXPIRIES = """
SELECT least(
    (SELECT min(l.expires_at) FROM ledger_lots l
     WHERE l.organization_id = %(organization_id)s AND l.ledger_account_id = w.ledger_account_id AND l.remaining > 0
        AND l.expires_at >= w.begins AND l.expires_at < w.ends),
    (SELECT min(l.kept_until) FROM ledger_lots l
     WHERE l.organization_id = %(organization_id)s AND l.ledger_account_id = w.ledger_account_id AND l.remaining > 0
        AND l.kept_until >= w.begins AND l.kept_until < w.ends)
)
FROM jsonb_to_recordset(%(expiry_ranges)s::jsonb) AS w(ledger_account_id bigint, begins timestamptz, ends timestamptz)
"""


def find_progress(db: Connection, account: LedgerAccount) -> NoticeProgress | None:
    """The progress of the notices of an account; None if they have not begun."""
    rows = fetch_rows(db, _PROGRESS, (account.organization_id, account.ledger_account_id))
    return NoticeProgress(*rows[0]) if rows else None


def lock_progress(db: Connection, account: LedgerAccount, begun_at: datetime) -> NoticeProgress:
    """Lock the progress of an account's notices against other workers; the first time, it begins at `begun_at`."""
    key = (account.organization_id, account.ledger_account_id)
    db.exec_driver_sql(_BEGIN, (*key, begun_at))
    return NoticeProgress(*fetch_rows(db, f"{_PROGRESS} FOR UPDATE", key)[0])


def store_progress(db: Connection, account: LedgerAccount, progress: NoticeProgress) -> None:
    """Store the progress of the notices of an account."""
    values = (progress.done_until, progress.moment, progress.after_wallet_id)
    db.exec_driver_sql(_STORE, (*values, account.organization_id, account.ledger_account_id))


def find_next_wallets(
    db: Connection,
    organization: Organization,
    account: LedgerAccount,
    expiry_ranges: Sequence[tuple[datetime, datetime]],
    after: int,
    limit: int,
) -> list[int]:
    """The next wallets after an id, ordered by id, with points of the account that may expire in one of the ranges."""
    policy = account.idle_policy(organization.zone)
    by_account = {} if policy is None else {account.ledger_account_id: policy}
    policies: list[Mapping[str, Any]] = []
    for begin, end in expiry_ranges:
        # A range includes its begin, which `policy_rows` excludes.
        policies += idle_balances.policy_rows(by_account, begin - _INSTANT, end)
    parameters = {
        "organization_id": account.organization_id,
        "ledger_account_id": account.ledger_account_id,
        "expiry_ranges": as_json([{"begins": begin, "ends": end} for begin, end in expiry_ranges]),
        "policies": as_json(policies),
        "after": after,
        "limit": limit,
    }
    return [wallet_id for (wallet_id,) in fetch_rows(db, _WALLETS, parameters)]


def find_amounts(
    db: Connection,
    organization: Organization,
    account: LedgerAccount,
    wallet_ids: Collection[int],
    now: datetime,
    known_at: datetime,
) -> list[expiring_points.ExpiringPart]:
    """The amounts of the account that expire after `now`, of lots that existed at `known_at`."""
    account_id = account.ledger_account_id
    policy = account.idle_policy(organization.zone)
    ends: dict[int, datetime | None] = dict.fromkeys(wallet_ids)
    if policy is not None:
        for dates in idle_balances.find_last_dates(db, account.organization_id, account_id, wallet_ids):
            ends[dates.wallet_id] = policy.end(dates.last_transaction_date, dates.last_activity_date)
    ends_of_balances = [(wallet_id, account_id, end) for wallet_id, end in ends.items()]
    return expiring_points.find_expiring(db, organization.organization_id, ends_of_balances, now, known_at)


def find_first_due(
    db: Connection,
    organization: Organization,
    schedules: Iterable[tuple[LedgerAccount, NoticeSchedule]],
    after: datetime,
    until: datetime,
) -> datetime | None:
    """The first moment after `after`, up to `until`, at which a notice may be due; None if there is no such moment."""
    due: list[datetime] = []
    for account, schedule in schedules:
        expiry_ranges = [schedule.expiry_range(days_before, after, until) for days_before in schedule.days_before]
        rows = [
            {"ledger_account_id": account.ledger_account_id, "begins": begin, "ends": end}
            for begin, end in expiry_ranges
        ]
        parameters = {"organization_id": organization.organization_id, "expiry_ranges": as_json(rows)}
        expiries = [expires_at for (expires_at,) in fetch_rows(db, _FIRST_EXPIRIES, parameters)]
        policy = account.idle_policy(organization.zone)
        if policy is not None:
            policies = {account.ledger_account_id: policy}
            ends = [
                idle_balances.find_first_idle_end(db, organization, policies, begin - _INSTANT, end)
                for begin, end in expiry_ranges
            ]
            expiries += ends
        moments = [schedule.next_notice_at(expiry, after) for expiry in expiries if expiry is not None]
        due += [moment for moment in moments if moment is not None and moment <= until]
    return min(due, default=None)
