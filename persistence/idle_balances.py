"""Balances that expire as a whole: which have expired by the policies of their accounts, and when others will."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection

from domain.ledger.expiry import IdlePolicy
from domain.organizations import Organization
from persistence.connections import fetch_rows
from persistence.ledger import ACCOUNTS
from persistence.rows import as_json
from persistence.tables.ledger import ledger_accounts

# When the idle period of a balance b began, by a policy p.
IDLE_SINCE = """(CASE WHEN p.counts_activities THEN coalesce(b.last_activity_date, b.last_transaction_date)
    ELSE b.last_transaction_date END)"""
# The policies of `policy_rows`.
POLICIES = "p(ledger_account_id bigint, counts_activities boolean, since timestamptz, until timestamptz)"

# The condition that a balance b has points that no extension of their expiry keeps beyond the moment {1}.
HAS_UNKEPT = """EXISTS (
        SELECT FROM ledger_lots l WHERE l.organization_id = {0} AND l.wallet_id = b.wallet_id
            AND l.ledger_account_id = b.ledger_account_id AND l.remaining > 0
            AND (l.kept_until IS NULL OR l.kept_until <= {1})
    )"""

_HAS_UNKEPT_NOW = HAS_UNKEPT.format("%(organization_id)s", "%(now)s")

# Balances whose idle period began between the bounds of their policy, and may have ended.
_NEXT_UNCERTAIN = f"""
SELECT b.wallet_id, b.ledger_account_id, {IDLE_SINCE} FROM ledger_balances b
JOIN jsonb_to_recordset(%(policies)s::jsonb) AS {POLICIES} USING (ledger_account_id)
WHERE b.organization_id = %(organization_id)s
    AND (b.wallet_id, b.ledger_account_id) > (%(after_wallet_id)s, %(after_account_id)s)
    AND b.current_balance > b.pending_debit_balance
    AND {IDLE_SINCE} > p.since AND {IDLE_SINCE} <= p.until AND {_HAS_UNKEPT_NOW}
ORDER BY b.wallet_id, b.ledger_account_id LIMIT %(limit)s
"""

_NEXT_IDLE = f"""
SELECT p.ledger_account_id, i.start FROM jsonb_to_recordset(%(policies)s::jsonb) AS {POLICIES}
CROSS JOIN LATERAL (
    SELECT DISTINCT {IDLE_SINCE} AS start FROM ledger_balances b
    WHERE b.organization_id = %(organization_id)s AND b.ledger_account_id = p.ledger_account_id
        AND b.current_balance > b.pending_debit_balance
        AND {IDLE_SINCE} > p.since AND {IDLE_SINCE} <= p.until
    ORDER BY 1 LIMIT %(limit)s
) i ORDER BY 1, 2
"""
# How many starts of idle periods a statement reads for each account: the first statement few, which mostly suffice.
_FEW_IDLE, _IDLE_AT_ONCE = 10, 1000
_INSTANT = timedelta(microseconds=1)
_MAX_ACCOUNT_ID = 2**63 - 1

_LAST_DATES = """
SELECT wallet_id, last_transaction_date, last_activity_date FROM ledger_balances
WHERE organization_id = %s AND ledger_account_id = %s AND wallet_id = ANY(%s)
"""


def find_idle_policies(db: Connection, organization: Organization) -> dict[int, IdlePolicy]:
    """The policies by which whole balances expire, by account id; accounts without such a policy are left out."""
    has_policies = ledger_accounts.c.expiration_policies != []
    accounts = ACCOUNTS.find_where(db, organization.organization_id, has_policies)
    policies = {account.ledger_account_id: account.idle_policy(organization.zone) for account in accounts}
    return {account_id: policy for account_id, policy in policies.items() if policy is not None}


def find_wallets_past_idle_end(
    db: Connection,
    organization_id: int,
    after: int,
    policies: Mapping[int, IdlePolicy],
    rows: Sequence[Mapping[str, Any]],
    now: datetime,
    limit: int,
) -> set[int]:
    """The wallets after the id `after` whose idle period has ended by `now`: the next `limit` of them, or a few more.

    `rows` are those of `policy_rows`: only idle periods that began between their bounds are read.
    """
    values = {"organization_id": organization_id, "policies": as_json(rows), "now": now, "limit": _IDLE_AT_ONCE}
    after_wallet_id, after_account_id = after, _MAX_ACCOUNT_ID
    wallets = set[int]()
    while len(wallets) < limit:
        after_balance = {"after_wallet_id": after_wallet_id, "after_account_id": after_account_id}
        balances = fetch_rows(db, _NEXT_UNCERTAIN, values | after_balance)
        for wallet_id, ledger_account_id, start in balances:
            end = policies[ledger_account_id].end(start, None)
            if end is not None and end <= now:
                wallets.add(wallet_id)
        if len(balances) < _IDLE_AT_ONCE:
            break
        after_wallet_id, after_account_id, _ = balances[-1]
    return wallets


def find_first_idle_end(
    db: Connection, organization: Organization, policies: Mapping[int, IdlePolicy], after: datetime, until: datetime
) -> datetime | None:
    """The first moment after `after`, up to `until`, at which a whole balance expires by one of the policies.

    None if there is no such moment.
    """
    first, limit, rows = None, _FEW_IDLE, policy_rows(policies, after, until)
    while rows:
        values = {"organization_id": organization.organization_id, "policies": as_json(rows), "limit": limit}
        starts: dict[int, list[datetime]] = {}
        for ledger_account_id, start in fetch_rows(db, _NEXT_IDLE, values):
            starts.setdefault(ledger_account_id, []).append(start)
            end = policies[ledger_account_id].end(start, None)
            if end is not None and after < end <= until:
                first = until = end
        # Continue with accounts that have further starts, as a period that begins later may end earlier.
        partly_read_policies = {
            account_id: policies[account_id] for account_id, starts_read in starts.items() if len(starts_read) == limit
        }
        rows = policy_rows(partly_read_policies, after, until if first is None else first - _INSTANT)
        rows = [{**row, "since": starts[row["ledger_account_id"]][-1]} for row in rows]
        rows, limit = [row for row in rows if row["since"] < row["until"]], _IDLE_AT_ONCE
    return first


def policy_rows(policies: Mapping[int, IdlePolicy], after: datetime, until: datetime) -> list[dict[str, Any]]:
    """The policies as rows of a statement, each with bounds for the begin of idle periods that end in a range of time.

    Idle periods that end after `after` and up to `until` began after the row's `since` and up to its `until`.
    """
    rows = []
    for ledger_account_id, policy in policies.items():
        since, _ = policy.bounds_of_start(after)
        _, last_start = policy.bounds_of_start(until)
        rows.append(
            {
                "ledger_account_id": ledger_account_id,
                "counts_activities": policy.activities is not None,
                "since": since,
                "until": last_start,
            }
        )
    return rows


class LastDates(NamedTuple):
    """The dates of the last transaction and the last activity of a wallet's balance on one account."""

    wallet_id: int
    last_transaction_date: datetime | None
    last_activity_date: datetime | None


def find_last_dates(
    db: Connection, organization_id: int, ledger_account_id: int, wallet_ids: Collection[int]
) -> list[LastDates]:
    """The last dates of each of these wallets that has a balance on the account."""
    rows = fetch_rows(db, _LAST_DATES, (organization_id, ledger_account_id, list(wallet_ids)))
    return [LastDates(*row) for row in rows]
