"""Reads of exports: pages of members by id, and what their wallets hold."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from sqlalchemy import Connection

from domain.members import Member
from persistence.connections import query
from persistence.rows import fields_of

_MEMBER = ", ".join(f"m.{name}" for name in fields_of(Member))

# The tier that was set by hand, that of the default program first; those of other programs go by their keys.
_MEMBERS = f"""
SELECT {_MEMBER}, held.tier, held.expires_at
FROM members m
LEFT JOIN LATERAL (
    SELECT CASE WHEN t.loyalty_program_id = o.default_loyalty_program_id THEN l.name
        ELSE l.loyalty_tier_key::text END AS tier, t.expires_at
    FROM member_tiers t
    JOIN loyalty_tiers l USING (organization_id, loyalty_tier_id)
    JOIN organizations o USING (organization_id)
    WHERE t.organization_id = m.organization_id AND t.member_id = m.member_id AND t.is_manual AND l.active
        AND (t.expires_at IS NULL OR t.expires_at > now())
    ORDER BY t.loyalty_program_id = o.default_loyalty_program_id DESC, t.loyalty_program_id LIMIT 1
) held ON true
WHERE m.organization_id = %s AND m.member_id > %s AND m.erased_at IS NULL
    AND (%s::timestamptz IS NULL OR m.updated_at >= %s)
ORDER BY m.member_id LIMIT %s
"""

_BALANCES = """
SELECT wallet_id, coalesce(a.alias, a.ledger_account_key::text), held.amount, held.expires_at
FROM (
    SELECT organization_id, wallet_id, ledger_account_id, sum(remaining) AS amount, expires_at,
        min(ledger_lot_id) AS row
    FROM ledger_lots
    WHERE organization_id = %s AND wallet_id = ANY(%s) AND remaining > 0
        AND (expires_at IS NULL OR expires_at > now())
    GROUP BY organization_id, wallet_id, ledger_account_id, expires_at
    UNION ALL
    SELECT b.organization_id, b.wallet_id, b.ledger_account_id, b.current_balance, NULL, 0
    FROM ledger_balances b JOIN ledger_accounts a USING (organization_id, ledger_account_id)
    WHERE b.organization_id = %s AND b.wallet_id = ANY(%s) AND b.current_balance > 0 AND NOT a.point_tracking_enabled
) held
JOIN ledger_accounts a USING (organization_id, ledger_account_id)
ORDER BY wallet_id, ledger_account_id, held.expires_at NULLS LAST, held.row
"""


def begin_snapshot(db: Connection) -> None:
    """Let all reads of this transaction see the records as they are now; to be called before them."""
    db.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")


def next_members(
    db: Connection, organization_id: int, after: int, updated_from: datetime | None, limit: int
) -> list[tuple[Member, str | None, datetime | None]]:
    """The next members who were not erased, by id, each with a tier set by hand and its end."""
    rows = query(db, _MEMBERS, (organization_id, after, updated_from, updated_from, limit))
    return [(Member(*row[:-2]), row[-2], row[-1]) for row in rows]


def balances_of(
    db: Connection, organization_id: int, wallet_ids: Sequence[int]
) -> list[tuple[int, str, Decimal, datetime | None]]:
    """The wallet, account, amount and expiry of all that wallets hold."""
    wallets = list(wallet_ids)
    return [
        (row[0], row[1], row[2], row[3])
        for row in query(db, _BALANCES, (organization_id, wallets, organization_id, wallets))
    ]
