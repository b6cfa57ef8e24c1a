"""A wallet's balances at the end of days, from its entries and from expiries that are not posted yet."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal

from sqlalchemy import Connection

from domain.ledger.expiry import add_months
from domain.ledger.records import LedgerAccount
from domain.ledger.views import DailyBalance, WalletView
from persistence.rows import as_json

_ZERO = Decimal(0)

# An expiry counts from the moment that it is dated, even if it was posted later, and what has expired from then on even
# if its expiry is not posted yet. All movements before the first day are one figure.
_CHANGES = """
SELECT ledger_account_id,
    CASE WHEN timezone('UTC', moment) >= CAST(%s AS date) THEN CAST(timezone('UTC', moment) AS date) END AS day,
    sum(amount)
FROM (
    SELECT e.ledger_account_id, e.amount,
        CASE WHEN t.is_expiry THEN t.external_event_date ELSE coalesce(t.captured_at, t.created_at) END AS moment
    FROM ledger_entries e JOIN ledger_transactions t USING (organization_id, ledger_transaction_id)
    WHERE e.organization_id = %s AND e.wallet_id = %s AND e.amount <> 0
    UNION ALL
    SELECT l.ledger_account_id, -l.remaining, greatest(least(l.expires_at, p.ended), l.created_at)
    FROM ledger_lots l
    JOIN jsonb_to_recordset(%s::jsonb) AS p(ledger_account_id bigint, ended timestamptz) USING (ledger_account_id)
    WHERE l.organization_id = %s AND l.wallet_id = %s AND l.remaining > 0
        AND least(l.expires_at, p.ended) <= CAST(%s AS timestamptz)
) changes
WHERE moment < CAST(%s AS timestamptz)
GROUP BY 1, 2
"""


def find(
    db: Connection,
    views: list[WalletView],
    accounts: dict[int, LedgerAccount],
    first: date,
    last: date,
    now: datetime,
) -> list[DailyBalance]:
    """A row for each of the balances of one wallet and day from `first` to `last` (UTC), by account, then by day."""
    organization_id = next(iter(accounts.values())).organization_id
    wallet_id = views[0].wallet_id
    tracked = [v for v in views if accounts[v.ledger_account_id].point_tracking_enabled]
    policies = as_json([{"ledger_account_id": v.ledger_account_id, "ended": _ended(v, accounts)} for v in tracked])
    after_last = datetime(last.year, last.month, last.day, tzinfo=now.tzinfo) + timedelta(days=1)
    changes: dict[tuple[int, date | None], Decimal] = {}
    for account_id, day, amount in db.exec_driver_sql(
        _CHANGES, (first, organization_id, wallet_id, policies, organization_id, wallet_id, now, after_last)
    ):
        changes[account_id, day] = amount
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    daily_balances = []
    for view in views:
        balance = changes.get((view.ledger_account_id, None), _ZERO)
        for day in days:
            balance += changes.get((view.ledger_account_id, day), _ZERO)
            daily_balances.append(
                DailyBalance(
                    ledger_account_id=view.ledger_account_id,
                    ledger_account_key=view.ledger_account_key,
                    is_default_account=view.is_default_account,
                    date=day,
                    # Below zero is debt, which balances do not include.
                    amount=max(balance, _ZERO),
                )
            )
    return daily_balances


def _ended(view: WalletView, accounts: dict[int, LedgerAccount]) -> datetime | None:
    """The moment at which a `lastTransaction` policy expires the whole balance."""
    period = accounts[view.ledger_account_id].expires_after_last_transaction
    if period is None or view.last_transaction_date is None:
        return None
    return add_months(view.last_transaction_date, period)
