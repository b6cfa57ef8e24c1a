"""Let the triggers of ledger entries look up their transactions, which takes the same time however many there are

Follows: 0032
"""

from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None
EXPANDS = True

_REPORT = """
CREATE OR REPLACE FUNCTION report_entries_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO report_changes (organization_id, kind, at, subject, wallet_id, tags, a, b)
    SELECT t.organization_id, 'mints', coalesce(t.external_event_date, t.created_at), t.ledger_account_id,
        CASE WHEN o.transaction_type = 1 THEN o.to_wallet_id ELSE t.to_wallet_id END,
        CASE WHEN o.transaction_type = 1 THEN o.tags ELSE t.tags END,
        -n.amount, CASE WHEN t.transaction_type = 1 THEN 1 ELSE 0 END
    FROM added n{joins}
    WHERE n.wallet_id IS NULL AND n.amount <> 0
        AND (t.transaction_type = 1 OR t.transaction_type = 3 AND o.transaction_type = 1);
    RETURN NULL;
END $$
"""

_LOOKED_UP = """
    CROSS JOIN LATERAL (
        SELECT * FROM ledger_transactions WHERE organization_id = n.organization_id
            AND ledger_account_id = n.ledger_account_id AND ledger_transaction_id = n.ledger_transaction_id OFFSET 0
    ) t
    LEFT JOIN LATERAL (
        SELECT * FROM ledger_transactions WHERE organization_id = n.organization_id
            AND ledger_account_id = n.ledger_account_id AND ledger_transaction_id = t.reverted_ledger_transaction_id
        OFFSET 0
    ) o ON true"""

_JOINED = """
    JOIN ledger_transactions t USING (organization_id, ledger_transaction_id)
    LEFT JOIN ledger_transactions o ON o.organization_id = t.organization_id
        AND o.ledger_transaction_id = t.reverted_ledger_transaction_id"""

_GUARD = """
CREATE OR REPLACE FUNCTION ledger_entries_come_with_their_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    own bigint := CAST(CAST(pg_current_xact_id() AS text) AS bigint);
    low_half CONSTANT bigint := 4294967296;
    other record;
    later bigint;
BEGIN
    FOR other IN{transactions}
    LOOP{check}
        later := mod(other.writer - mod(own, low_half) + low_half, low_half);
        IF later > low_half / 2
            OR pg_xact_status(CAST(CAST(own + later AS text) AS xid8)) IS DISTINCT FROM 'in progress' THEN
            RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = 'ledger_entries',
                CONSTRAINT = 'ledger_entries_come_with_their_transaction',
                MESSAGE = 'ledger transaction ' || other.ledger_transaction_id || ' of organization '
                    || other.organization_id || ' is complete: it takes no further entries';
        END IF;
    END LOOP;
    RETURN NULL;
END $$
"""

_GUARDED_LOOKED_UP = """
        SELECT n.organization_id, n.ledger_transaction_id, CAST(CAST(t.writer AS text) AS bigint) AS writer
        FROM (SELECT DISTINCT organization_id, ledger_account_id, ledger_transaction_id FROM added) n
        LEFT JOIN LATERAL (
            SELECT xmin AS writer FROM ledger_transactions
            WHERE organization_id = n.organization_id AND ledger_account_id = n.ledger_account_id
                AND ledger_transaction_id = n.ledger_transaction_id OFFSET 0
        ) t ON true
        WHERE t.writer IS DISTINCT FROM CAST(pg_current_xact_id() AS xid)"""

_OTHER_ACCOUNT = """
        IF other.writer IS NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = 'ledger_entries',
                CONSTRAINT = 'ledger_entries_come_with_their_transaction',
                MESSAGE = 'ledger transaction ' || other.ledger_transaction_id || ' of organization '
                    || other.organization_id || ' is of another account than its entry';
        END IF;"""

_GUARDED_JOINED = """
        SELECT DISTINCT t.organization_id, t.ledger_transaction_id, CAST(CAST(t.xmin AS text) AS bigint) AS writer
        FROM added JOIN ledger_transactions t USING (organization_id, ledger_transaction_id)
        WHERE t.xmin <> CAST(pg_current_xact_id() AS xid)"""


def upgrade() -> None:
    """Apply the change."""
    op.execute(_REPORT.format(joins=_LOOKED_UP))
    op.execute(_GUARD.format(transactions=_GUARDED_LOOKED_UP, check=_OTHER_ACCOUNT))


def downgrade() -> None:
    """Take it back."""
    op.execute(_REPORT.format(joins=_JOINED))
    op.execute(_GUARD.format(transactions=_GUARDED_JOINED, check=""))
