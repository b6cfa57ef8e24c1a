"""Check emptied audit entries faster

Follows: 1037
"""

from alembic import op

revision = "1038"
down_revision = "1037"
branch_labels = None
depends_on = None

EXPANDS = True

_FUNCTION = r"""
CREATE OR REPLACE FUNCTION audit_log_is_emptied_by_an_erasing() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_erased boolean;
BEGIN
    IF TG_TABLE_NAME = 'audit_log' THEN
        SELECT EXISTS (
    SELECT FROM audit_log e WHERE e.organization_id = new.organization_id AND e.operation_id = 'resetOrganization'
        AND e.xmin = CAST(pg_current_xact_id() AS xid) AND e.salt IS NOT NULL
    ORDER BY e.audit_log_id DESC LIMIT 1
) OR EXISTS (
    SELECT FROM audit_log e WHERE e.organization_id = new.organization_id AND e.operation_id = 'eraseMember'
        AND e.xmin = CAST(pg_current_xact_id() AS xid) AND e.salt IS NOT NULL AND (
            e.member_ids && new.member_ids
            OR strpos(CAST(e.changes AS text), CAST(new.audit_log_id AS text)) > 0
            AND CAST(e.changes AS jsonb) #> '{erasedEntries,to}' @> to_jsonb(new.audit_log_id))
    ORDER BY e.audit_log_id DESC LIMIT 1
) INTO is_erased;
    ELSE
        EXECUTE 'SELECT EXISTS (
    SELECT FROM ' || shard_beside(TG_RELID, 'audit_log') || ' e WHERE e.organization_id = ($1).organization_id AND e.operation_id = ''resetOrganization''
        AND e.xmin = CAST(pg_current_xact_id() AS xid) AND e.salt IS NOT NULL
    ORDER BY e.audit_log_id DESC LIMIT 1
) OR EXISTS (
    SELECT FROM ' || shard_beside(TG_RELID, 'audit_log') || ' e WHERE e.organization_id = ($1).organization_id AND e.operation_id = ''eraseMember''
        AND e.xmin = CAST(pg_current_xact_id() AS xid) AND e.salt IS NOT NULL AND (
            e.member_ids && ($1).member_ids
            OR strpos(CAST(e.changes AS text), CAST(($1).audit_log_id AS text)) > 0
            AND CAST(e.changes AS jsonb) #> ''{erasedEntries,to}'' @> to_jsonb(($1).audit_log_id))
    ORDER BY e.audit_log_id DESC LIMIT 1
)' INTO is_erased USING new;
    END IF;
    IF is_erased THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = 'audit_log',
        CONSTRAINT = 'audit_log_is_emptied_by_an_erasing',
        MESSAGE = 'entries of the audit log are emptied only by erasing a member whom they concern';
END $$
"""


def upgrade() -> None:
    """Let the check of an emptied entry parse only the list of emptied entries that has its id."""
    op.execute(_FUNCTION)
