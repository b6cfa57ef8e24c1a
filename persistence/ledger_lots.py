"""Lots for explanations of a balance, and the wallets and moments of expiries and of ends of holds."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from sqlalchemy import Connection, Row

from domain.ledger.expiry import IdlePolicy
from domain.ledger.lots import ArrivedMint
from domain.ledger.records import MINT, PENDING, LedgerAccount
from domain.ledger.views import ExpiringLots, WaitingLot, WalletLots, WalletView
from domain.organizations import Organization
from persistence.connections import fetch_rows
from persistence.idle_balances import (
    HAS_UNKEPT,
    IDLE_SINCE,
    POLICIES,
    find_first_idle_end,
    find_idle_policies,
    find_wallets_past_idle_end,
    policy_rows,
)
from persistence.rows import as_json

MAX_LISTED = 100

_ZERO = Decimal(0)

# The moment at which the idle balance of each account expires; None if it does not expire by inactivity.
_Ends = Mapping[int, datetime | None]
# An account, a moment (None: never), and the amount of the account that expires then.
_Amount = Row[int, datetime | None, Decimal]

# The index of spendable lots is in the order of their expiry, so that only the listed lots are read.
_EXPIRING = """
SELECT p.ledger_account_id, l.expires_at, l.remaining
FROM jsonb_to_recordset(%(ends)s::jsonb) AS p(ledger_account_id bigint, until timestamptz)
CROSS JOIN LATERAL (
    SELECT expires_at, sum(remaining) AS remaining FROM ledger_lots
    WHERE organization_id = %(organization_id)s AND wallet_id = %(wallet_id)s
        AND ledger_account_id = p.ledger_account_id AND remaining > 0
        AND expires_at > %(now)s AND expires_at <= p.until
    GROUP BY expires_at ORDER BY expires_at LIMIT %(limit)s
) l
"""

# Lots that an idle balance keeps after its end.
_KEPT = """
SELECT p.ledger_account_id, least(l.expires_at, l.kept_until) AS moment, sum(l.remaining)
FROM jsonb_to_recordset(%(ends)s::jsonb) AS p(ledger_account_id bigint, until timestamptz)
JOIN ledger_lots l USING (ledger_account_id)
WHERE l.organization_id = %(organization_id)s AND l.wallet_id = %(wallet_id)s AND l.remaining > 0
    AND l.kept_until > greatest(p.until, %(now)s)
    AND (l.expires_at > greatest(p.until, %(now)s) OR l.expires_at IS NULL)
GROUP BY 1, 2 ORDER BY 2 LIMIT %(limit)s
"""

_IN_HOLDS = f"""
SELECT p.ledger_account_id, l.expires_at, l.amount
FROM jsonb_to_recordset(%(ends)s::jsonb) AS p(ledger_account_id bigint, until timestamptz)
CROSS JOIN LATERAL (
    SELECT {{expires_at}} AS expires_at, sum(u.amount) AS amount
    FROM ledger_transactions t
    JOIN ledger_lot_uses u USING (organization_id, ledger_transaction_id)
    JOIN ledger_lots lots USING (organization_id, ledger_lot_id)
    WHERE t.organization_id = %(organization_id)s AND t.from_wallet_id = %(wallet_id)s
        AND t.ledger_account_id = p.ledger_account_id AND t.status = {PENDING} AND {{has_ended}}
    GROUP BY 1 ORDER BY 1 NULLS LAST LIMIT %(limit)s
) l
"""

_RESERVED = _IN_HOLDS.format(expires_at="lots.expires_at", has_ended="(t.held_until <= %(now)s) IS NOT TRUE")
_RELEASED = _IN_HOLDS.format(
    expires_at="nullif(least(lots.expires_at, greatest(p.until, lots.kept_until)), 'infinity')",
    has_ended="t.held_until <= %(now)s",
)

# Amounts of mints that are not available yet.
_WAITING = f"""
SELECT p.ledger_account_id, w.available_at, w.amount
FROM jsonb_to_recordset(%s::jsonb) AS p(ledger_account_id bigint)
CROSS JOIN LATERAL (
    SELECT t.available_at, sum(t.amount) AS amount FROM ledger_transactions t
    WHERE t.organization_id = %s AND t.to_wallet_id = %s AND t.ledger_account_id = p.ledger_account_id
        AND t.status = {PENDING} AND t.transaction_type = {MINT}
        AND (t.available_at IS NOT NULL OR t.available_on IS NOT NULL)
        AND (coalesce(t.available_at, t.held_until) <= %s) IS NOT TRUE
    GROUP BY t.available_at ORDER BY t.available_at NULLS LAST LIMIT %s
) w
"""

_DUE_ACCOUNTS = f"""
SELECT ledger_account_id FROM ledger_lots
WHERE organization_id = %s AND remaining > 0 AND expires_at <= %s AND wallet_id = ANY(%s)
UNION
SELECT ledger_account_id FROM ledger_transactions
WHERE organization_id = %s AND status = {PENDING} AND held_until <= %s AND from_wallet_id = ANY(%s)
UNION
SELECT ledger_account_id FROM ledger_transactions
WHERE organization_id = %s AND status = {PENDING} AND transaction_type = {MINT}
    AND coalesce(available_at, held_until) <= %s AND to_wallet_id = ANY(%s)
"""

_NEXT_WALLETS = f"""
SELECT wallet_id FROM (
    (SELECT DISTINCT wallet_id FROM ledger_lots
     WHERE organization_id = %s AND wallet_id > %s AND remaining > 0 AND expires_at <= %s
     ORDER BY wallet_id LIMIT %s)
    UNION
    (SELECT DISTINCT from_wallet_id FROM ledger_transactions
     WHERE organization_id = %s AND from_wallet_id > %s AND status = {PENDING} AND held_until <= %s
     ORDER BY from_wallet_id LIMIT %s)
    UNION
    (SELECT DISTINCT to_wallet_id FROM ledger_transactions
     WHERE organization_id = %s AND to_wallet_id > %s AND coalesce(available_at, held_until) <= %s
        AND status = {PENDING} AND transaction_type = {MINT} AND (available_at IS NOT NULL OR available_on IS NOT NULL)
     ORDER BY to_wallet_id LIMIT %s)
    UNION
    (SELECT DISTINCT b.wallet_id FROM ledger_balances b
     JOIN jsonb_to_recordset(%s::jsonb) AS {POLICIES} USING (ledger_account_id)
     WHERE b.organization_id = %s AND b.wallet_id > %s AND b.current_balance > b.pending_debit_balance
        AND {IDLE_SINCE} <= p.since AND {HAS_UNKEPT.format("%s", "%s")}
     ORDER BY b.wallet_id LIMIT %s)
) due ORDER BY wallet_id LIMIT %s
"""

# By wallet: the lots of accounts whose whole balance may expire, the mints that are due, and the holds that have ended.
_DUE_ROWS = f"""
SELECT wallet_id FROM (
    (SELECT wallet_id FROM ledger_lots
     WHERE organization_id = %(organization_id)s AND wallet_id = ANY(%(wallet_ids)s)
        AND ledger_account_id = ANY(%(account_ids)s) AND remaining > 0
     ORDER BY wallet_id LIMIT %(limit)s)
    UNION ALL
    (SELECT to_wallet_id FROM ledger_transactions
     WHERE organization_id = %(organization_id)s AND to_wallet_id = ANY(%(wallet_ids)s) AND status = {PENDING}
        AND transaction_type = {MINT} AND coalesce(available_at, held_until) <= %(now)s
     ORDER BY to_wallet_id LIMIT %(limit)s)
    UNION ALL
    (SELECT from_wallet_id FROM ledger_transactions
     WHERE organization_id = %(organization_id)s AND from_wallet_id = ANY(%(wallet_ids)s) AND status = {PENDING}
        AND held_until <= %(now)s
     ORDER BY from_wallet_id LIMIT %(limit)s)
) due ORDER BY wallet_id LIMIT %(limit)s
"""

_FIRST_DUE = f"""
SELECT least(
    (SELECT min(expires_at) FROM ledger_lots
     WHERE organization_id = %(organization_id)s AND remaining > 0
        AND expires_at > %(after)s AND expires_at <= %(until)s),
    (SELECT min(kept_until) FROM ledger_lots
     WHERE organization_id = %(organization_id)s AND remaining > 0
        AND kept_until > %(after)s AND kept_until <= %(until)s),
    (SELECT min(held_until) FROM ledger_transactions
     WHERE organization_id = %(organization_id)s AND status = {PENDING}
        AND held_until > %(after)s AND held_until <= %(until)s),
    (SELECT min(coalesce(available_at, held_until)) FROM ledger_transactions
     WHERE organization_id = %(organization_id)s AND status = {PENDING} AND transaction_type = {MINT}
        AND (available_at IS NOT NULL OR available_on IS NOT NULL)
        AND coalesce(available_at, held_until) > %(after)s AND coalesce(available_at, held_until) <= %(until)s)
)
"""


def with_lots(
    db: Connection,
    organization: Organization,
    views: Sequence[WalletView],
    accounts: Mapping[int, LedgerAccount],
    now: datetime,
) -> list[WalletView]:
    """The balances of one wallet with their lots; `accounts` are those of the balances, by id.

    The number of queries does not depend on the number of accounts.
    """
    organization_id = organization.organization_id
    ends = {
        view.ledger_account_id: accounts[view.ledger_account_id].end_of_idle_balance(view, organization.zone)
        for view in views
    }
    available: dict[int, dict[datetime | None, Decimal]] = {account_id: {} for account_id in ends}
    reserved_amounts: dict[int, dict[datetime | None, Decimal]] = {account_id: {} for account_id in ends}
    tracked_ends = {account_id: end for account_id, end in ends.items() if accounts[account_id].point_tracking_enabled}
    if tracked_ends:
        with_holds = [view.ledger_account_id for view in views if view.pending_debit_balance]
        with_ended_holds = {view.ledger_account_id for view in views if view.ended_holds} & tracked_ends.keys()
        of_wallet = (organization_id, views[0].wallet_id, now)
        for account_id, expires_at, amount in _amounts(db, _EXPIRING, tracked_ends, *of_wallet):
            available[account_id][expires_at] = amount
        for account_id, expires_at, amount in _amounts(db, _RESERVED, dict.fromkeys(with_holds), *of_wallet):
            reserved_amounts[account_id][expires_at] = amount
        idle_ends = {account_id: end for account_id, end in tracked_ends.items() if end is not None}
        for account_id, moment, amount in _amounts(db, _KEPT, idle_ends, *of_wallet):
            available[account_id][moment] = amount
        released_ends = {account_id: tracked_ends[account_id] for account_id in with_ended_holds}
        for account_id, expires_at, amount in _amounts(db, _RELEASED, released_ends, *of_wallet):
            if expires_at is not None and expires_at > now:
                available[account_id][expires_at] = available[account_id].get(expires_at, _ZERO) + amount
    waiting = _waiting(db, organization_id, views, now)
    views_with_lots = []
    for view in views:
        account_id, end = view.ledger_account_id, ends[view.ledger_account_id]
        if account_id in tracked_ends:
            _add_arrived_mints(available[account_id], view.arrived_mints, end, now)
        lots = _lots(view, end, available[account_id], reserved_amounts[account_id], waiting.get(account_id, ()))
        views_with_lots.append(replace(view, lots=lots))
    return views_with_lots


def _amounts(
    db: Connection, statement: str, ends: _Ends, organization_id: int, wallet_id: int, now: datetime
) -> Iterable[_Amount]:
    """The amounts of a wallet that a statement finds, by account and moment; no query without accounts.

    `ends` are the accounts, each with the end of its idle balance.
    """
    if not ends:
        return ()
    rows = [{"ledger_account_id": account_id, "until": end or "infinity"} for account_id, end in ends.items()]
    parameters = {"ends": as_json(rows), "organization_id": organization_id, "wallet_id": wallet_id, "now": now}
    return db.exec_driver_sql(statement, {**parameters, "limit": MAX_LISTED + 1})


def _add_arrived_mints(
    available: dict[datetime | None, Decimal],
    arrived_mints: Iterable[ArrivedMint],
    end: datetime | None,
    now: datetime,
) -> None:
    """Add the amounts of mints that have become available; these have no lots until their release is posted.

    Points that expire with the idle balance, at `end`, or never, are not added: they are part of the rest in `_lots`.
    """
    for mint in arrived_mints:
        if mint.expires_at is not None and mint.expires_at > now and (end is None or mint.expires_at <= end):
            available[mint.expires_at] = available.get(mint.expires_at, _ZERO) + mint.amount


def _waiting(
    db: Connection, organization_id: int, views: Sequence[WalletView], now: datetime
) -> dict[int, list[WaitingLot]]:
    """The amounts that are not available yet, by account; no query if no points wait."""
    pending = [{"ledger_account_id": view.ledger_account_id} for view in views if view.pending]
    waiting: dict[int, list[WaitingLot]] = {}
    if pending:
        values = (as_json(pending), organization_id, views[0].wallet_id, now, MAX_LISTED)
        for account_id, available_at, amount in db.exec_driver_sql(_WAITING, values):
            waiting.setdefault(account_id, []).append(WaitingLot(available_at, amount))
    return waiting


def _lots(
    view: WalletView,
    end: datetime | None,
    available: Mapping[datetime | None, Decimal],
    reserved_amounts: Mapping[datetime | None, Decimal],
    waiting: Sequence[WaitingLot],
) -> WalletLots:
    """List the points of a balance by expiry.

    The points for which no expiry was read expire at `end`, with the idle balance, or never if it is None.
    """
    available_amount = view.available_balance
    available_by_moment, reserved_by_moment = dict(available), dict(reserved_amounts)
    # A query returns at most MAX_LISTED + 1 amounts: if there are fewer, all are known, and so is the rest.
    if len(available_by_moment) <= MAX_LISTED:
        available_by_moment[end] = (
            available_by_moment.get(end, _ZERO) + available_amount - sum(available_by_moment.values(), _ZERO)
        )
    if len(reserved_by_moment) <= MAX_LISTED:
        reserved_by_moment[None] = (
            reserved_by_moment.get(None, _ZERO) + view.pending_debit_balance - sum(reserved_by_moment.values(), _ZERO)
        )
    moments = sorted(
        available_by_moment.keys() | reserved_by_moment.keys(),
        key=lambda moment: (moment is None, moment or view.created_at),
    )
    all_lots = [
        ExpiringLots(moment, available_by_moment.get(moment, _ZERO), reserved_by_moment.get(moment, _ZERO))
        for moment in moments
    ]
    expiring = tuple(lot for lot in all_lots if lot.available or lot.reserved)[:MAX_LISTED]
    return WalletLots(
        available=available_amount,
        reserved=view.pending_debit_balance,
        pending=view.pending_credit_balance,
        expiring=expiring,
        unlisted=view.current_balance - sum((lots.available + lots.reserved for lots in expiring), _ZERO),
        waiting=tuple(waiting),
    )


def find_next_wallets_due(
    db: Connection, organization_id: int, after: int, policies: Mapping[int, IdlePolicy], now: datetime, limit: int
) -> list[int]:
    """The next wallets, by id, with points that have expired or become available, or holds that have ended, by `now`.

    `policies` are those of accounts whose whole balance expires.
    """
    due = (organization_id, after, now, limit)
    rows = policy_rows(policies, now, now)
    idle = (as_json(rows), organization_id, after, organization_id, now, limit)
    wallets = set(db.exec_driver_sql(_NEXT_WALLETS, (*due, *due, *due, *idle, limit)).scalars())
    # Months differ in length: idle periods that began between the two bounds may have ended or not.
    uncertain_policies = [row for row in rows if row["since"] < row["until"]]
    if uncertain_policies:
        wallets |= find_wallets_past_idle_end(db, organization_id, after, policies, uncertain_policies, now, limit)
    return sorted(wallets)[:limit]


def limit_due_rows(
    db: Connection,
    organization_id: int,
    wallet_ids: list[int],
    idle_account_ids: Collection[int],
    now: datetime,
    max_rows: int,
) -> list[int]:
    """The first of these wallets, at least one, that together have at most `max_rows` rows of due work.

    The rows are the lots of accounts whose whole balance expires, the mints that have become available, and the holds
    that have ended. The wallets are ordered by id.
    """
    values = {
        "organization_id": organization_id,
        "wallet_ids": wallet_ids,
        "account_ids": list(idle_account_ids),
        "now": now,
        "limit": max_rows + 1,
    }
    rows = fetch_rows(db, _DUE_ROWS, values)
    if len(rows) <= max_rows:
        return wallet_ids
    # Not all rows of the last wallet were read.
    last_wallet_id = rows[-1][0]
    return [wallet_id for wallet_id in wallet_ids if wallet_id < last_wallet_id] or wallet_ids[:1]


def find_first_due(db: Connection, organization: Organization, after: datetime, until: datetime) -> datetime | None:
    """The first moment after `after`, up to `until`, at which points expire or become available, or holds end.

    None if there is no such moment.
    """
    organization_id = organization.organization_id
    values = {"organization_id": organization_id, "after": after, "until": until}
    first: datetime | None
    [(first,)] = fetch_rows(db, _FIRST_DUE, values)
    policies = find_idle_policies(db, organization)
    # A balance that expires later than `first` does not matter.
    latest = first or until
    return find_first_idle_end(db, organization, policies, after, latest) or first


def find_due_accounts(db: Connection, organization_id: int, wallet_ids: Collection[int], now: datetime) -> set[int]:
    """The accounts in which these wallets have lots that have expired, mints that are due, or holds that have ended."""
    due = (organization_id, now, list(wallet_ids))
    return set(db.exec_driver_sql(_DUE_ACCOUNTS, (*due, *due, *due)).scalars())
