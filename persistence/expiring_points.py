"""The amounts of points that expire, by wallet, account and moment."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import Connection

from domain.ledger.expiring import expiring_points
from domain.ledger.lots import end_of_lot
from domain.ledger.records import PENDING, LedgerAccount
from domain.ledger.views import WalletView
from domain.organizations import Organization
from persistence.connections import fetch_rows
from persistence.rows import as_json

# A lot expires at its own date, or earlier with the idle balance (`until`), but then not before its `kept_until`.
# Points that were reserved by a hold that has ended belong to their lot again.
_EXPIRING = f"""
SELECT wallet_id, ledger_account_id, expires_at, sum(amount) FROM (
    SELECT p.wallet_id, p.ledger_account_id, least(l.expires_at, greatest(p.until, l.kept_until)) AS expires_at,
        l.remaining AS amount
    FROM jsonb_to_recordset(%(pairs)s::jsonb) AS p(wallet_id bigint, ledger_account_id bigint, until timestamptz)
    JOIN ledger_lots l USING (wallet_id, ledger_account_id)
    WHERE l.organization_id = %(organization_id)s AND l.remaining > 0 AND l.created_at <= %(known_at)s
    UNION ALL
    SELECT p.wallet_id, p.ledger_account_id, least(l.expires_at, greatest(p.until, l.kept_until)), u.amount
    FROM jsonb_to_recordset(%(pairs)s::jsonb) AS p(wallet_id bigint, ledger_account_id bigint, until timestamptz)
    JOIN ledger_transactions t ON t.from_wallet_id = p.wallet_id AND t.ledger_account_id = p.ledger_account_id
    JOIN ledger_lot_uses u USING (organization_id, ledger_transaction_id)
    JOIN ledger_lots l USING (organization_id, ledger_lot_id)
    WHERE t.organization_id = %(organization_id)s AND t.status = {PENDING} AND t.held_until <= %(now)s
        AND l.created_at <= %(known_at)s
) lots
WHERE expires_at > %(now)s AND expires_at < 'infinity' GROUP BY 1, 2, 3
"""


class ExpiringPart(NamedTuple):
    """An amount of a balance that expires at one moment."""

    wallet_id: int
    ledger_account_id: int
    expires_at: datetime
    amount: Decimal


def find_expiring(
    db: Connection,
    organization_id: int,
    ends: Iterable[tuple[int, int, datetime | None]],
    now: datetime,
    known_at: datetime,
) -> list[ExpiringPart]:
    """The amounts that expire after `now`, of lots that existed at `known_at`.

    `ends` are wallets and accounts, each with the moment at which the whole balance expires, None if it does not.
    """
    pairs = [
        {"wallet_id": wallet_id, "ledger_account_id": account_id, "until": end or "infinity"}
        for wallet_id, account_id, end in ends
    ]
    if not pairs:
        return []
    parameters = {"pairs": as_json(pairs), "organization_id": organization_id, "now": now, "known_at": known_at}
    return [ExpiringPart(*row) for row in fetch_rows(db, _EXPIRING, parameters)]


def with_expiring(
    db: Connection,
    organization: Organization,
    views: Sequence[WalletView],
    accounts: Mapping[int, LedgerAccount],
    now: datetime,
) -> list[WalletView]:
    """The same balances, each with the points that will expire, which one query finds; `accounts` are by id.

    Balances of accounts without point tracking have no points that expire.
    """
    zone = organization.zone
    tracked_views = [view for view in views if accounts[view.ledger_account_id].point_tracking_enabled]
    ends = [
        (view.wallet_id, view.ledger_account_id, accounts[view.ledger_account_id].end_of_idle_balance(view, zone))
        for view in tracked_views
    ]
    amounts: dict[tuple[int, int], dict[datetime, Decimal]] = {}
    for expiring in find_expiring(db, organization.organization_id, ends, now, known_at=now):
        balance = (expiring.wallet_id, expiring.ledger_account_id)
        amounts.setdefault(balance, {})[expiring.expires_at] = expiring.amount
    for view, (wallet_id, account_id, end) in zip(tracked_views, ends, strict=True):
        _add_available_mints(amounts.setdefault((wallet_id, account_id), {}), view, end, now)
    views_with_expiring = []
    for view in views:
        amounts_of_view = amounts.get((view.wallet_id, view.ledger_account_id), {})
        calendar = accounts[view.ledger_account_id].expiry_calendar(zone)
        views_with_expiring.append(replace(view, expiring=expiring_points(amounts_of_view, now, calendar.zone)))
    return views_with_expiring


def _add_available_mints(
    amounts: dict[datetime, Decimal], view: WalletView, end: datetime | None, now: datetime
) -> None:
    """Add the expiries of waiting mints that are available by now, but have no lots before their release is posted.

    `end` is the moment at which the whole balance expires, None if it does not.
    """
    for mint in view.arrived_mints:
        moment = end_of_lot(mint.expires_at, end)
        if moment is not None and moment > now:
            amounts[moment] = amounts.get(moment, Decimal(0)) + mint.amount
