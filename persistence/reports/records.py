"""Queries of records for each kind of figure: their sums are what totals and changes together must have.

Each query has the columns organization_id, at, subject, label, wallet_id, a, b, c and d, which
`persistence.tables.reports` describes. With conditions on organization_id and at, it reads the records by an index.
"""

from collections.abc import Mapping

from domain.ledger.records import MINT, REVERT

MEMBERS, COUPONS, MINTS, EVENTS, MISSIONS = "members", "coupons", "mints", "events", "missions"

_MEMBERS = """
SELECT organization_id, created_at AS at, CAST(0 AS bigint) AS subject, '' AS label, CAST(NULL AS bigint) AS wallet_id,
    CAST(1 AS numeric) AS a, CAST(0 AS numeric) AS b, CAST(0 AS numeric) AS c, CAST(0 AS numeric) AS d
FROM members
"""

_COUPONS = """
SELECT organization_id, created_at AS at, coupon_book_id AS subject, '' AS label, CAST(NULL AS bigint) AS wallet_id,
    amount_assigned AS a, amount_used AS b, coalesce(amount_discounted, 0) AS c,
    CASE WHEN amount_discounted IS NULL THEN amount_used ELSE 0 END AS d
FROM coupon_usages
"""

# A mint that waited counts when it became available. Each part of the union is read by another index.
_MINTS = f"""
SELECT t.organization_id, t.at, t.ledger_account_id AS subject,
    tag.label, CASE WHEN o.transaction_type = {MINT} THEN o.to_wallet_id ELSE t.to_wallet_id END AS wallet_id,
    -e.amount AS a, CAST(CASE WHEN t.transaction_type = {MINT} THEN 1 ELSE 0 END AS numeric) AS b,
    CAST(0 AS numeric) AS c, CAST(0 AS numeric) AS d
FROM (
    SELECT *, coalesce(external_event_date, created_at) AS at FROM ledger_transactions
    WHERE transaction_type IN ({MINT}, {REVERT}) AND available_at IS NULL
    UNION ALL
    SELECT *, captured_at FROM ledger_transactions WHERE transaction_type = {MINT} AND available_at IS NOT NULL
) t
JOIN ledger_entries e ON e.organization_id = t.organization_id AND e.ledger_transaction_id = t.ledger_transaction_id
LEFT JOIN ledger_transactions o ON o.organization_id = t.organization_id
    AND o.ledger_transaction_id = t.reverted_ledger_transaction_id
CROSS JOIN LATERAL (SELECT CASE WHEN o.transaction_type = {MINT} THEN o.tags ELSE t.tags END AS tags) AS tagged
CROSS JOIN LATERAL unnest(
    CASE WHEN tagged.tags IS NULL THEN ARRAY[''] ELSE ARRAY(SELECT '' UNION SELECT unnest(tagged.tags)) END
) AS tag(label)
WHERE (t.transaction_type = {MINT} OR o.transaction_type = {MINT})
    AND e.wallet_id IS NULL AND e.amount <> 0
"""

# Cancellations, which have the type of the event that they revert, do not count. Few events revert another event, but
# for NOT EXISTS the planner would read all events.
_COUNTED = """
LEFT JOIN events r ON r.organization_id = {0}.organization_id AND r.loyalty_event_id = {0}.reverted_loyalty_event_id
WHERE {0}.status <> 'failed'
    AND ({0}.reverted_loyalty_event_id IS NULL OR {0}.event_type IS DISTINCT FROM r.event_type)
"""

# An event that counts and was reverted is subtracted at the time of its reversal.
_EVENTS = f"""
SELECT e.organization_id, coalesce(e.external_event_date, e.created_at) AS at, CAST(0 AS bigint) AS subject,
    e.event_type AS label, CAST(NULL AS bigint) AS wallet_id,
    CAST(1 AS numeric) AS a, CAST(0 AS numeric) AS b, CAST(0 AS numeric) AS c, CAST(0 AS numeric) AS d
FROM events e {_COUNTED.format("e")}
UNION ALL
SELECT e.organization_id, coalesce(e.external_event_date, e.created_at) AS at, CAST(0 AS bigint) AS subject,
    x.event_type AS label, CAST(NULL AS bigint) AS wallet_id,
    CAST(-1 AS numeric) AS a, CAST(0 AS numeric) AS b, CAST(0 AS numeric) AS c, CAST(0 AS numeric) AS d
FROM events e
JOIN events x ON x.organization_id = e.organization_id AND x.reversal_loyalty_event_id = e.loyalty_event_id
{_COUNTED.format("x")}
"""

_MISSIONS = """
SELECT organization_id, timestamptz 'epoch' AS at, mission_id AS subject, '' AS label,
    CAST(NULL AS bigint) AS wallet_id,
    CAST(CASE WHEN counted > 0 THEN 1 ELSE 0 END AS numeric) AS a,
    CAST(CASE WHEN times_achieved > 0 THEN 1 ELSE 0 END AS numeric) AS b,
    CAST(CASE WHEN mod(counted, goal_count) > 0 THEN 1 ELSE 0 END AS numeric) AS c, CAST(0 AS numeric) AS d
FROM member_missions
"""

RECORDS: Mapping[str, str] = {
    MEMBERS: _MEMBERS,
    COUPONS: _COUPONS,
    MINTS: _MINTS,
    EVENTS: _EVENTS,
    MISSIONS: _MISSIONS,
}
