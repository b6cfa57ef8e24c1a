"""The least that reads a member over HTTP: Flask and psycopg2, served by gunicorn, the limit of `bench.single_calls`.

It sends the same statement as `getMember` (the organization, and the member with tiers and balances) and returns the
same records, without token, validation, log, measurements, deadline or expiry. `LOYALTY_DATABASE_URL` names the
database. Connections commit by themselves, one for each thread.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import flask
import psycopg2
import sqlalchemy

ORGANIZATION_ID = 1

_STATEMENT = """
SELECT * FROM organizations o LEFT JOIN (
SELECT m.*, (
    SELECT json_agg(json_build_array(t.loyalty_program_id, t.loyalty_tier_id, t.is_manual, t.expires_at, t.created_at)
                    ORDER BY t.loyalty_program_id)
    FROM member_tiers t JOIN loyalty_tiers USING (organization_id, loyalty_tier_id)
    WHERE t.organization_id = m.organization_id AND t.member_id = m.member_id
) AS tiers, h.*
FROM members m LEFT JOIN (
    SELECT l.ledger_id, a.ledger_account_id, w.organization_id AS of_organization, w.wallet_id AS of_wallet,
        coalesce(b.current_balance, 0) AS balance,
        coalesce((SELECT sum(x.remaining) FROM ledger_lots x WHERE x.organization_id = b.organization_id
            AND x.wallet_id = b.wallet_id AND x.ledger_account_id = b.ledger_account_id
            AND x.remaining > 0 AND x.expires_at <= now()), 0) AS expired
    FROM wallets w
    JOIN ledgers l ON l.organization_id = w.organization_id AND l.ledger_id = w.ledger_id
    JOIN ledger_accounts a ON a.organization_id = w.organization_id AND a.ledger_id = w.ledger_id
    LEFT JOIN ledger_balances b ON b.organization_id = w.organization_id AND b.wallet_id = w.wallet_id
        AND b.ledger_account_id = a.ledger_account_id
    WHERE a.active OR b.wallet_id IS NOT NULL
) h ON h.of_organization = m.organization_id AND h.of_wallet = m.wallet_id
WHERE m.organization_id = %s AND m.loyalty_member_id = %s
) x ON true
WHERE o.organization_id = %s
"""
_BALANCE = ("ledger_id", "ledger_account_id", "balance", "expired")

app = flask.Flask("bare")
_local = threading.local()


def _ask(statement: str, values: tuple[Any, ...]) -> list[dict[str, Any]]:
    """The rows of a query as dicts, read over the connection of this thread."""
    if not hasattr(_local, "connection"):
        url = sqlalchemy.make_url(os.environ["LOYALTY_DATABASE_URL"]).render_as_string(hide_password=False)
        _local.connection = psycopg2.connect(url)
        _local.connection.autocommit = True
    with _local.connection.cursor() as cursor:
        cursor.execute(statement, values)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor]


@app.get("/v2/members/<loyalty_member_id>")
def get_member(loyalty_member_id: str) -> flask.Response:
    """Return the member's record, with tiers and balances."""
    rows = _ask(_STATEMENT, (ORGANIZATION_ID, loyalty_member_id, ORGANIZATION_ID))
    balances = [{name: row[name] for name in _BALANCE} for row in rows]
    return flask.jsonify(loyaltyMember={**rows[0], "ledgerBalances": balances})
