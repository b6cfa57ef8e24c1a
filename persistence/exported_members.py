"""Queries of exports of members, of their balances and of the points that they have earned."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection

from domain.exports import LEDGER_ACCOUNT_ID, MEMBER_ID
from domain.imports.export_keys import BALANCE_PATTERN
from domain.ledger.expiry import IdlePolicy
from domain.ledger.lots import end_of_lot
from domain.ledger.records import MINT, PENDING, SETTLED
from domain.members import Member
from persistence import idle_balances, organizations
from persistence.balance_columns import QUALIFYING_OF_PENDING
from persistence.connections import fetch_rows, stream
from persistence.exported_rows import ROWS_IN_MEMORY, ExportRange, creation_filters, filter_conditions
from persistence.rows import fields_of

_BALANCES_IN_MEMORY = 1_000
_EPOCH = "2000-01-01T00:00:00Z"
_MEMBER = ", ".join(f"m.{name}" for name in fields_of(Member))

# A tier that was set by request: of the default program, with its name, or else of another program, with its key.
_MEMBERS = f"""
SELECT {_MEMBER}, held.tier, held.expires_at, held.tier_hold
FROM members m
LEFT JOIN LATERAL (
    SELECT CASE WHEN t.loyalty_program_id = o.default_loyalty_program_id THEN l.name
        ELSE l.loyalty_tier_key::text END AS tier, h.expires_at, h.tier_hold
    FROM member_tiers t
    CROSS JOIN LATERAL (
        SELECT coalesce(t.floor_tier_id, t.loyalty_tier_id) AS loyalty_tier_id,
            CASE WHEN t.floor_tier_id IS NULL THEN t.expires_at ELSE t.floor_expires_at END AS expires_at,
            CASE WHEN t.floor_tier_id IS NULL THEN 'fixed' ELSE 'floor' END AS tier_hold
    ) h
    JOIN loyalty_tiers l ON l.organization_id = t.organization_id AND l.loyalty_tier_id = h.loyalty_tier_id
    JOIN organizations o ON o.organization_id = t.organization_id
    WHERE t.organization_id = %(organization_id)s AND t.member_id = m.member_id AND l.active
        AND (t.is_manual OR t.floor_tier_id IS NOT NULL) AND (h.expires_at IS NULL OR h.expires_at > %(now)s)
    ORDER BY t.loyalty_program_id = o.default_loyalty_program_id DESC, t.loyalty_program_id LIMIT 1
) held ON true
WHERE m.organization_id = %(organization_id)s AND m.member_id > %(after)s AND m.erased_at IS NULL
    AND (%(updated_from)s::timestamptz IS NULL OR m.updated_at >= %(updated_from)s)
    {filter_conditions({**creation_filters("m.created_at"), MEMBER_ID: f"m.member_id = %({MEMBER_ID})s"})}
ORDER BY m.member_id LIMIT %(limit)s
"""

# Amounts by their expiry, and qualifying points by the quarter of an hour in which they were earned: midnight of every
# time zone is the end of a quarter, so that each period gets its own points. Points that wait for a moment have the
# amount and the qualifying points in one row.
_EARNED = f"""CASE WHEN t.status = {PENDING} THEN {QUALIFYING_OF_PENDING.format(t="t", a="a")}
    ELSE coalesce(t.qualifying_amount, t.amount) - coalesce(t.unearned, 0) END"""
_QUARTER = f"date_bin('15 minutes', coalesce(t.external_event_date, t.captured_at, t.created_at), '{_EPOCH}')"
_BALANCES = f"""
SELECT wallet_id, coalesce(a.alias, a.ledger_account_key::text), held.amount, held.expires_at, held.qualifying,
    held.earned_at, held.available_at, a.ledger_account_id, a.ledger_account_key::text, held.kept_until
FROM (
    SELECT organization_id, wallet_id, ledger_account_id, sum(amount) AS amount, expires_at, 0 AS qualifying,
        CAST(NULL AS timestamptz) AS earned_at, CAST(NULL AS timestamptz) AS available_at, min(ledger_lot_id) AS row,
        kept_until
    FROM (
        SELECT organization_id, wallet_id, ledger_account_id, remaining AS amount, expires_at, ledger_lot_id,
            kept_until
        FROM ledger_lots
        WHERE organization_id = %(organization_id)s AND wallet_id = ANY(%(wallet_ids)s) AND remaining > 0
        UNION ALL
        SELECT organization_id, l.wallet_id, l.ledger_account_id, u.amount, l.expires_at, l.ledger_lot_id,
            l.kept_until
        FROM ledger_transactions t
        JOIN ledger_lot_uses u USING (organization_id, ledger_transaction_id)
        JOIN ledger_lots l USING (organization_id, ledger_lot_id)
        WHERE organization_id = %(organization_id)s AND t.from_wallet_id = ANY(%(wallet_ids)s) AND t.status = {PENDING}
            AND t.held_until <= %(now)s
        UNION ALL
        SELECT organization_id, wallet_id, ledger_account_id,
            least(t.amount, t.total - b.current_overdraft_balance), t.ends_at, 0, NULL
        FROM (
            SELECT t.organization_id, t.to_wallet_id AS wallet_id, t.ledger_account_id, t.amount,
                coalesce(t.pending_expires_at, t.policy_expires_at) AS ends_at,
                sum(t.amount) OVER (PARTITION BY t.to_wallet_id, t.ledger_account_id
                    ORDER BY t.available_at, t.ledger_transaction_id) AS total
            FROM ledger_transactions t
            WHERE t.organization_id = %(organization_id)s AND t.to_wallet_id = ANY(%(wallet_ids)s)
                AND t.status = {PENDING} AND t.transaction_type = {MINT} AND t.available_at <= %(now)s
        ) t
        JOIN ledger_accounts a USING (organization_id, ledger_account_id)
        JOIN ledger_balances b USING (organization_id, wallet_id, ledger_account_id)
        WHERE organization_id = %(organization_id)s AND a.point_tracking_enabled
            AND t.total > b.current_overdraft_balance
    ) free
    WHERE expires_at IS NULL OR expires_at > %(now)s
    GROUP BY organization_id, wallet_id, ledger_account_id, expires_at, kept_until
    UNION ALL
    SELECT b.organization_id, b.wallet_id, b.ledger_account_id, free.amount, NULL, 0, NULL, NULL, 0, NULL
    FROM ledger_balances b JOIN ledger_accounts a USING (organization_id, ledger_account_id)
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(t.amount), 0) AS amount FROM ledger_transactions t
        WHERE t.organization_id = %(organization_id)s AND t.from_wallet_id = b.wallet_id
            AND t.ledger_account_id = b.ledger_account_id AND t.status = 0 AND t.held_until <= %(now)s
    ) ended_holds
    CROSS JOIN LATERAL (
        SELECT b.current_balance - b.pending_debit_balance + ended_holds.amount
            + greatest(coalesce(sum(t.amount), 0) - b.current_overdraft_balance, 0) AS amount
        FROM ledger_transactions t
        WHERE t.organization_id = %(organization_id)s AND t.to_wallet_id = b.wallet_id
            AND t.ledger_account_id = b.ledger_account_id AND t.status = {PENDING} AND t.transaction_type = {MINT}
            AND t.available_at <= %(now)s
    ) free
    WHERE b.organization_id = %(organization_id)s AND b.wallet_id = ANY(%(wallet_ids)s) AND free.amount > 0
        AND NOT a.point_tracking_enabled
    UNION ALL
    SELECT t.organization_id, t.to_wallet_id, t.ledger_account_id, 0, NULL, sum({_EARNED}), {_QUARTER} AS earned_at,
        NULL, 0, NULL
    FROM ledger_transactions t JOIN ledger_accounts a USING (organization_id, ledger_account_id)
    WHERE t.organization_id = %(organization_id)s AND t.to_wallet_id = ANY(%(wallet_ids)s)
        AND t.transaction_type = {MINT} AND (t.status = {SETTLED} OR t.status = {PENDING} AND t.available_at <= %(now)s)
    GROUP BY t.organization_id, t.to_wallet_id, t.ledger_account_id, earned_at
    HAVING sum({_EARNED}) > 0
    UNION ALL
    SELECT t.organization_id, t.to_wallet_id, t.ledger_account_id, sum(t.amount),
        coalesce(t.pending_expires_at, t.policy_expires_at) AS ends_at, sum({_EARNED}), {_QUARTER} AS earned_at,
        t.available_at, 0, NULL
    FROM ledger_transactions t JOIN ledger_accounts a USING (organization_id, ledger_account_id)
    WHERE t.organization_id = %(organization_id)s AND t.to_wallet_id = ANY(%(wallet_ids)s)
        AND t.transaction_type = {MINT} AND t.status = {PENDING} AND t.available_at > %(now)s
    GROUP BY t.organization_id, t.to_wallet_id, t.ledger_account_id, ends_at, earned_at, t.available_at
) held
JOIN ledger_accounts a USING (organization_id, ledger_account_id)
WHERE a.organization_id = %(organization_id)s
    {filter_conditions({LEDGER_ACCOUNT_ID: f"a.ledger_account_id = %({LEDGER_ACCOUNT_ID})s"})}
ORDER BY wallet_id, ledger_account_id, held.available_at NULLS FIRST, held.earned_at NULLS FIRST,
    held.expires_at NULLS LAST, held.row
"""

# The first mint of each balance that was imported from an export of another organization. The pattern finds the key of
# the account in a systemUniqueKey that an export has generated.
_IMPORTED = f"""
SELECT DISTINCT ON (t.to_wallet_id, t.ledger_account_id) t.to_wallet_id, t.ledger_account_id, t.system_unique_key
FROM ledger_transactions t
WHERE t.organization_id = %(organization_id)s AND t.to_wallet_id = ANY(%(wallet_ids)s) AND t.transaction_type = {MINT}
    AND substring(t.system_unique_key FROM %(pattern)s) NOT IN (
        SELECT ledger_account_key::text FROM ledger_accounts WHERE organization_id = %(organization_id)s
    )
ORDER BY t.to_wallet_id, t.ledger_account_id, t.ledger_transaction_id
"""


class ExportedTier(NamedTuple):
    """A tier that was set by request: its name or key, its end (None if it has none) and its hold."""

    name: str
    expires_at: datetime | None
    tier_hold: str


def find_next_members(
    db: Connection, export_range: ExportRange, after: int, limit: int
) -> Iterator[tuple[Member, ExportedTier | None]]:
    """The next members after an id who were not erased, each with a tier that was set by request, or None."""
    for *columns, tier_name, expires_at, tier_hold in stream(
        db, _MEMBERS, export_range.values(after, limit), ROWS_IN_MEMORY
    ):
        tier = None if tier_name is None else ExportedTier(tier_name, expires_at, tier_hold)
        yield Member(*columns), tier


class ExportedBalance(NamedTuple):
    """The amount of an account in a wallet until `expires_at`, or the points that count for tiers from `earned_at`.

    Points that are not available yet have both, and `available_at`, the moment at which they become available.
    """

    wallet_id: int
    account: str
    amount: Decimal
    expires_at: datetime | None
    qualifying: Decimal
    earned_at: datetime | None
    available_at: datetime | None
    ledger_account_id: int
    ledger_account_key: str
    # The moment until which an idle balance keeps the amount, if that is after its end.
    kept_until: datetime | None


def find_balances(
    db: Connection, export_range: ExportRange, wallet_ids: Sequence[int]
) -> Iterator[tuple[tuple[int, int], Iterator[ExportedBalance]]]:
    """The parts of each balance, by wallet and account id: one for each expiry, and the points that were earned.

    The parts have to be read before the next balance.
    """
    organization = organizations.find(db, export_range.organization_id)
    policies = {} if organization is None else idle_balances.find_idle_policies(db, organization)
    ends = _idle_ends(db, export_range, wallet_ids, policies)
    values = {**export_range.values(0, 0), "wallet_ids": list(wallet_ids)}
    rows = (ExportedBalance(*row) for row in stream(db, _BALANCES, values, _BALANCES_IN_MEMORY))
    balances = groupby(rows, key=attrgetter("wallet_id", "ledger_account_id"))
    if not policies:
        return balances
    return ((key, _with_idle_end(parts, ends.get(key), export_range.now)) for key, parts in balances)


def find_imported_keys(db: Connection, organization_id: int, wallet_ids: Sequence[int]) -> dict[tuple[int, int], str]:
    """The keys of the balances that were imported from an export of another organization, by wallet and account id.

    The key of a balance is that of its first imported row.
    """
    values = {"organization_id": organization_id, "wallet_ids": list(wallet_ids), "pattern": BALANCE_PATTERN}
    return {(wallet_id, account_id): key for wallet_id, account_id, key in fetch_rows(db, _IMPORTED, values)}


def _idle_ends(
    db: Connection, export_range: ExportRange, wallet_ids: Sequence[int], policies: Mapping[int, IdlePolicy]
) -> dict[tuple[int, int], datetime | None]:
    """The ends of the idle balances of wallets, by wallet and account id."""
    ends = {}
    for account_id, policy in policies.items():
        for dates in idle_balances.find_last_dates(db, export_range.organization_id, account_id, wallet_ids):
            end = policy.end(dates.last_transaction_date, dates.last_activity_date)
            ends[dates.wallet_id, account_id] = end
    return ends


def _with_idle_end(
    parts: Iterable[ExportedBalance], idle_end: datetime | None, now: datetime
) -> Iterator[ExportedBalance]:
    """The parts of a balance with the expiry that applies: at the latest `idle_end`, or `kept_until` if that is later.

    Parts that have expired with the idle balance are left out. Amounts that now have the same expiry are added up.
    """
    by_expiry: dict[tuple[Any, ...], ExportedBalance] = {}
    for part in parts:
        # Rows of earned points, and of points that are not available yet, do not expire with the idle balance.
        end = idle_end if part.amount and part.available_at is None else None
        expires_at = end_of_lot(part.expires_at, end, part.kept_until)
        if end is not None and expires_at is not None and expires_at <= now:
            continue
        key = (expires_at, part.earned_at, part.available_at)
        amount_before = by_expiry[key].amount if key in by_expiry else Decimal(0)
        by_expiry[key] = part._replace(expires_at=expires_at, amount=part.amount + amount_before)
    yield from by_expiry.values()
