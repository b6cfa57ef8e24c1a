"""The least that reads a member over HTTP: Flask and psycopg2, served by gunicorn, the limit of `bench.single_calls`.

It asks the same four questions as `getMember` (the organization, the member, the tiers, the balances) and answers the
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

_ORGANIZATION = "SELECT * FROM organizations WHERE organization_id = %s"
_MEMBER = "SELECT * FROM members WHERE organization_id = %s AND loyalty_member_id = %s"
_TIERS = """
SELECT t.loyalty_program_id, t.loyalty_tier_id, t.is_manual, t.expires_at, t.created_at
FROM member_tiers t JOIN loyalty_tiers l USING (organization_id, loyalty_tier_id)
WHERE t.organization_id = %s AND t.member_id = ANY(%s)
ORDER BY t.loyalty_program_id
"""
_BALANCES = """
SELECT l.ledger_id, a.ledger_account_id, w.wallet_id, coalesce(b.current_balance, 0) AS balance,
    coalesce((SELECT sum(x.remaining) FROM ledger_lots x WHERE x.organization_id = b.organization_id
        AND x.wallet_id = b.wallet_id AND x.ledger_account_id = b.ledger_account_id
        AND x.remaining > 0 AND x.expires_at <= now()), 0) AS expired
FROM wallets w
JOIN ledgers l ON l.organization_id = w.organization_id AND l.ledger_id = w.ledger_id
JOIN ledger_accounts a ON a.organization_id = w.organization_id AND a.ledger_id = w.ledger_id
LEFT JOIN ledger_balances b ON b.organization_id = w.organization_id AND b.wallet_id = w.wallet_id
    AND b.ledger_account_id = a.ledger_account_id
WHERE w.organization_id = %s AND w.wallet_id = ANY(%s) AND (a.active OR b.wallet_id IS NOT NULL)
ORDER BY w.wallet_id, a.is_default_account DESC, a.ledger_account_id
"""

app = flask.Flask("bare")
_local = threading.local()


def _ask(statement: str, values: tuple[Any, ...]) -> list[dict[str, Any]]:
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
    """Answer the member's record, with tiers and balances."""
    _ask(_ORGANIZATION, (ORGANIZATION_ID,))
    [member] = _ask(_MEMBER, (ORGANIZATION_ID, loyalty_member_id))
    tiers = _ask(_TIERS, (ORGANIZATION_ID, [member["member_id"]]))
    balances = _ask(_BALANCES, (ORGANIZATION_ID, [member["wallet_id"]]))
    return flask.jsonify(loyaltyMember={**member, "tiers": tiers, "ledgerBalances": balances})
