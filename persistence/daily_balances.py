"""A wallet's balances at the end of days, from its entries and from expiries that are not posted yet."""

from datetime import date, datetime, timedelta
from decimal import Decimal

from sqlalchemy import Connection

from domain.calendar import start_of_day
from domain.ledger.records import MINT, PENDING, LedgerAccount
from domain.ledger.views import DailyBalance, WalletView
from domain.organizations import Organization
from persistence.rows import as_json

_ZERO = Decimal(0)

# An expiry counts from its own date, even if it was posted later or is not posted yet. Points that expired while a hold
# reserved them count as expired from the end of the hold; points that waited count from when they are available, and
# expire only as far as they do not repay a debt. Days are numbered from 1, by their first moments; the number 0 has the
# sum of all movements before the first day.
_CHANGES = f"""
SELECT ledger_account_id,
    width_bucket(moment, CAST(%s AS timestamptz[])) AS day_number,
    sum(amount)
FROM (
    SELECT e.ledger_account_id, e.amount,
        CASE WHEN t.is_expiry THEN t.external_event_date ELSE coalesce(t.captured_at, t.created_at) END AS moment
    FROM ledger_entries e JOIN ledger_transactions t USING (organization_id, ledger_transaction_id)
    WHERE e.organization_id = %s AND e.wallet_id = %s AND e.amount <> 0
    UNION ALL
    SELECT l.ledger_account_id, -l.remaining,
        greatest(least(l.expires_at, greatest(p.ended, l.kept_until)), l.created_at)
    FROM ledger_lots l
    JOIN jsonb_to_recordset(%s::jsonb) AS p(ledger_account_id bigint, ended timestamptz) USING (ledger_account_id)
    WHERE l.organization_id = %s AND l.wallet_id = %s AND l.remaining > 0
        AND least(l.expires_at, greatest(p.ended, l.kept_until)) <= CAST(%s AS timestamptz)
    UNION ALL
    SELECT t.ledger_account_id, -u.amount,
        greatest(least(l.expires_at, greatest(p.ended, l.kept_until)), t.held_until)
    FROM ledger_transactions t
    JOIN jsonb_to_recordset(%s::jsonb) AS p(ledger_account_id bigint, ended timestamptz) USING (ledger_account_id)
    JOIN ledger_lot_uses u USING (organization_id, ledger_transaction_id)
    JOIN ledger_lots l USING (organization_id, ledger_lot_id)
    WHERE t.organization_id = %s AND t.from_wallet_id = %s AND t.status = {PENDING}
        AND greatest(t.held_until, least(l.expires_at, greatest(p.ended, l.kept_until))) <= CAST(%s AS timestamptz)
        AND t.held_until IS NOT NULL
    UNION ALL
    SELECT t.ledger_account_id, change.amount, change.moment
    FROM (
        SELECT t.ledger_account_id, t.amount, t.available_at,
            coalesce(t.pending_expires_at, t.policy_expires_at) AS ends_at,
            sum(t.amount) OVER (PARTITION BY t.ledger_account_id ORDER BY t.available_at, t.ledger_transaction_id)
                - b.current_overdraft_balance AS total_without_debt
        FROM ledger_transactions t
        JOIN ledger_balances b ON b.organization_id = t.organization_id AND b.wallet_id = t.to_wallet_id
            AND b.ledger_account_id = t.ledger_account_id
        WHERE t.organization_id = %s AND t.to_wallet_id = %s AND t.status = {PENDING} AND t.transaction_type = {MINT}
            AND t.available_at <= CAST(%s AS timestamptz)
    ) t
    CROSS JOIN LATERAL (VALUES (t.amount, t.available_at),
        (-greatest(least(t.amount, t.total_without_debt), 0), greatest(t.ends_at, t.available_at))
    ) AS change(amount, moment)
    WHERE change.moment <= CAST(%s AS timestamptz) AND (change.amount > 0 OR t.ends_at IS NOT NULL)
) changes
WHERE moment < CAST(%s AS timestamptz)
GROUP BY 1, 2
"""


def find(
    db: Connection,
    organization: Organization,
    views: list[WalletView],
    accounts: dict[int, LedgerAccount],
    first: date,
    last: date,
    now: datetime,
) -> list[DailyBalance]:
    """The amount of every balance of one wallet at the end of each day from `first` to `last`, by account, then by day.

    Days end at midnight in the organization's time zone. `views` are the balances now, `accounts` their accounts by id.
    """
    organization_id, wallet_id, zone = organization.organization_id, views[0].wallet_id, organization.zone
    tracked_views = [view for view in views if accounts[view.ledger_account_id].point_tracking_enabled]
    idle_policies = as_json(
        [
            {
                "ledger_account_id": view.ledger_account_id,
                "ended": accounts[view.ledger_account_id].end_of_idle_balance(view, zone) or "infinity",
            }
            for view in tracked_views
        ]
    )
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    starts = [start_of_day(day, zone) for day in days]
    after_last = start_of_day(last + timedelta(days=1), zone)
    values_of_unposted = (idle_policies, organization_id, wallet_id, now)
    # By account and number of the day; day 0 has everything before `first`.
    changes: dict[tuple[int, int], Decimal] = {}
    for account_id, day_number, amount in db.exec_driver_sql(
        _CHANGES,
        (
            *(starts, organization_id, wallet_id),
            *values_of_unposted,
            *values_of_unposted,
            *(organization_id, wallet_id, now, now, after_last),
        ),
    ):
        changes[account_id, day_number] = amount
    daily_balances = []
    for view in views:
        balance = changes.get((view.ledger_account_id, 0), _ZERO)
        for day_number, day in enumerate(days, start=1):
            balance += changes.get((view.ledger_account_id, day_number), _ZERO)
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
