"""The points of wallets that expire, by their moments."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from sqlalchemy import Connection

from domain.ledger.expiring import expiring_points
from domain.ledger.records import LedgerAccount
from domain.ledger.views import WalletView
from domain.organizations import Organization
from persistence.connections import query
from persistence.rows import as_json

# A lot expires at its own date, or before it with the idle balance. What a hold that has ended took is back in its lot.
_EXPIRING = """
SELECT ledger_account_id, expires_at, sum(amount) FROM (
    SELECT p.ledger_account_id, least(l.expires_at, p.until) AS expires_at, l.remaining AS amount
    FROM jsonb_to_recordset(%(accounts)s::jsonb) AS p(ledger_account_id bigint, until timestamptz)
    JOIN ledger_lots l USING (ledger_account_id)
    WHERE l.organization_id = %(organization_id)s AND l.wallet_id = %(wallet_id)s AND l.remaining > 0
    UNION ALL
    SELECT p.ledger_account_id, least(l.expires_at, p.until), u.amount
    FROM jsonb_to_recordset(%(accounts)s::jsonb) AS p(ledger_account_id bigint, until timestamptz)
    JOIN ledger_transactions t USING (ledger_account_id)
    JOIN ledger_lot_uses u USING (organization_id, ledger_transaction_id)
    JOIN ledger_lots l USING (organization_id, ledger_lot_id)
    WHERE t.organization_id = %(organization_id)s AND t.from_wallet_id = %(wallet_id)s AND t.status = 0
        AND t.held_until <= %(now)s
) lots
WHERE expires_at > %(now)s AND expires_at < 'infinity' GROUP BY 1, 2
"""


def with_expiring(
    db: Connection,
    organization: Organization,
    views: Sequence[WalletView],
    accounts: Mapping[int, LedgerAccount],
    now: datetime,
) -> list[WalletView]:
    """The balances of one wallet, on these accounts, with what of them expires; one query for any number of them."""
    zone = organization.zone
    ends = [
        {"ledger_account_id": i, "until": accounts[i].end_of_idle_balance(view, zone) or "infinity"}
        for view in views
        if accounts[i := view.ledger_account_id].point_tracking_enabled
    ]
    amounts: dict[int, dict[datetime, Decimal]] = {}
    if ends:
        asked = {"accounts": as_json(ends), "organization_id": organization.organization_id, "now": now}
        for account_id, moment, amount in query(db, _EXPIRING, {**asked, "wallet_id": views[0].wallet_id}):
            amounts.setdefault(account_id, {})[moment] = amount
    return [
        replace(view, expiring=expiring_points(amounts.get(i, {}), now, accounts[i].expiry_calendar(zone).zone))
        for view in views
        for i in (view.ledger_account_id,)
    ]
