"""Report released points when available

Follows: 1031
"""

import sqlalchemy as sa
from alembic import op

revision = "1032"
down_revision = "1031"
branch_labels = None
depends_on = None

EXPANDS = True

# Braces are around the names of tables.
_NOTE_MINTS = """\
INSERT INTO {report_changes} (organization_id, report_change_id, kind, at, subject, wallet_id, tags, a, b)
SELECT t.organization_id, nextval('report_changes_report_change_id_seq'), 'mints',
    CASE WHEN t.available_at IS NULL THEN coalesce(t.external_event_date, t.created_at) ELSE t.captured_at END,
    t.ledger_account_id,
    CASE WHEN o.transaction_type = 1 THEN o.to_wallet_id ELSE t.to_wallet_id END,
    CASE WHEN o.transaction_type = 1 THEN o.tags ELSE t.tags END,
    -n.amount, CASE WHEN t.transaction_type = 1 THEN 1 ELSE 0 END
FROM added n
CROSS JOIN LATERAL (
    SELECT * FROM {ledger_transactions} WHERE organization_id = n.organization_id
        AND ledger_account_id = n.ledger_account_id AND ledger_transaction_id = n.ledger_transaction_id OFFSET 0
) t
LEFT JOIN LATERAL (
    SELECT * FROM {ledger_transactions} WHERE organization_id = n.organization_id
        AND ledger_account_id = n.ledger_account_id AND ledger_transaction_id = t.reverted_ledger_transaction_id
    OFFSET 0
) o ON true
WHERE n.wallet_id IS NULL AND n.amount <> 0
    AND (t.transaction_type = 1 OR t.transaction_type = 3 AND o.transaction_type = 1)"""
_TABLES = ("report_changes", "ledger_transactions")
_ON_TABLES = _NOTE_MINTS.format(**{table: table for table in _TABLES})
_ON_SHARDS = _NOTE_MINTS.replace("'", "''").format(
    **{table: f"' || shard_beside(TG_RELID, '{table}') || '" for table in _TABLES}
)

# What counted on the date of the event counts on the day of the release instead.
_MOVE_RELEASED = """
INSERT INTO report_changes (organization_id, report_change_id, kind, at, subject, wallet_id, tags, a, b)
SELECT t.organization_id, nextval('report_changes_report_change_id_seq'), 'mints', counted.at, t.ledger_account_id,
    t.to_wallet_id, t.tags, counted.sign * -e.amount, counted.sign
FROM ledger_transactions t
JOIN ledger_entries e ON e.organization_id = t.organization_id AND e.ledger_transaction_id = t.ledger_transaction_id
CROSS JOIN LATERAL (
    VALUES (coalesce(t.external_event_date, t.created_at), -1), (t.captured_at, 1)
) AS counted(at, sign)
WHERE t.transaction_type = 1 AND t.available_at IS NOT NULL AND e.wallet_id IS NULL AND e.amount <> 0
"""


def upgrade() -> None:
    """Let mints that waited count in reports from when they became available, also those released before."""
    # It waits for all who write transactions, and lets nobody release points until the figures are moved.
    op.create_index(
        "ix_ledger_transactions_released",
        "ledger_transactions",
        ["organization_id", "captured_at"],
        postgresql_where=sa.text("available_at IS NOT NULL"),
    )
    op.execute(f"""
CREATE OR REPLACE FUNCTION report_entries_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'ledger_entries' THEN
        {_ON_TABLES};
    ELSE
        EXECUTE '{_ON_SHARDS}';
    END IF;
    RETURN NULL;
END $$
""")
    op.execute(_MOVE_RELEASED)
