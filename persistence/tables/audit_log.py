"""The audit log: the changes of each record with their callers, and the seals that chain them.

Entries are only added. The digest of an entry covers its personal data (the changes and the reason) only by a salted
digest of that data: once salt and data are erased, the data cannot be recovered, and the digest is still valid.
"""

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSON

from persistence.tables.base import (
    belongs_to_organization,
    execute_on,
    foreign_key,
    index,
    instant,
    personal,
    tenant_table,
)
from persistence.tables.shards import on_shards_too

audit_log = tenant_table(
    "audit_log",
    "audit_log_id",
    instant("created_at", nullable=False),
    # What the test clock of the organization showed, if it had one; `created_at` is real.
    instant("test_clock"),
    # The caller: the subject of the token, its user and its id.
    Column("actor", Text, nullable=False),
    Column("user_id", BigInteger),
    Column("token_id", Text),
    Column("surface", Text),
    Column("operation_id", Text, nullable=False),
    Column("request_id", Text),
    Column("entity_type", Text, nullable=False),
    Column("entity_id", Text, nullable=False),
    # The members whom the entry is about; erasing a member erases the entry's data about the member.
    Column("member_ids", ARRAY(BigInteger), nullable=False),
    personal(Column("reason", Text)),
    # JSON keeps its text, so that the digest stays valid. Erasing sets reason, changes and salt to null.
    personal(Column("changes", JSON(none_as_null=True))),
    personal(Column("salt", LargeBinary)),
    Column("personal_digest", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    index("ix_audit_log_entity", "entity_type", "entity_id", "audit_log_id"),
    index("ix_audit_log_actor", "actor", "audit_log_id"),
    index("ix_audit_log_operation", "operation_id", "audit_log_id"),
    index("ix_audit_log_request", "request_id"),
    index("ix_audit_log_created_at", "created_at"),
    Index("ix_audit_log_members", "member_ids", postgresql_using="gin"),
    belongs_to_organization(),
)

# The entries that no seal contains yet. Each row is written with its entry, so that no late commit is missed.
unsealed_audit_log = tenant_table(
    "unsealed_audit_log",
    ("audit_log_id",),
    Column("audit_log_id", BigInteger, nullable=False),
    foreign_key("audit_log", "audit_log_id"),
)

# The seals of an organization, numbered from 1. A hash is over the previous hash and the digests of the seal's entries.
audit_log_seals = tenant_table(
    "audit_log_seals",
    ("seal_number",),
    Column("seal_number", Integer, nullable=False),
    instant("created_at", nullable=False),
    Column("audit_log_ids", ARRAY(BigInteger), nullable=False),
    Column("previous_hash", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    belongs_to_organization(),
)

_ENTRIES_STAY = """
CREATE OR REPLACE FUNCTION audit_log_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND new.changes IS NULL AND new.salt IS NULL AND new.reason IS NULL
        AND to_jsonb(new) - 'changes' - 'salt' - 'reason' = to_jsonb(old) - 'changes' - 'salt' - 'reason' THEN
        RETURN new;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = 'audit_log', CONSTRAINT = 'audit_log_stays',
        MESSAGE = 'entries of the audit log are never changed and never removed, but what they say may be erased';
END $$
"""

_ENTRIES_STAY_TRIGGER = """
CREATE TRIGGER audit_log_stays BEFORE UPDATE OR DELETE ON audit_log
FOR EACH ROW EXECUTE FUNCTION audit_log_stays()
"""

_NO_TRUNCATE_TRIGGER = """
CREATE TRIGGER audit_log_stays_whole BEFORE TRUNCATE ON audit_log
FOR EACH STATEMENT EXECUTE FUNCTION audit_log_stays()
"""

# An entry is emptied only in a database transaction that also writes the entry about the erasing: of all records, or of
# a member (then the emptied entry is about this member, or is in the list of erased entries). As that entry is written
# last, the check is at the commit.
_ERASING = """
SELECT EXISTS (
    SELECT FROM {audit_log} e WHERE e.organization_id = new.organization_id AND e.operation_id = 'resetOrganization'
        AND e.xmin = CAST(pg_current_xact_id() AS xid) AND e.salt IS NOT NULL
    ORDER BY e.audit_log_id DESC LIMIT 1
) OR EXISTS (
    SELECT FROM {audit_log} e WHERE e.organization_id = new.organization_id AND e.operation_id = 'eraseMember'
        AND e.xmin = CAST(pg_current_xact_id() AS xid) AND e.salt IS NOT NULL AND (
            e.member_ids && new.member_ids
            OR strpos(CAST(e.changes AS text), CAST(new.audit_log_id AS text)) > 0
            AND CAST(e.changes AS jsonb) #> '{erasedEntries,to}' @> to_jsonb(new.audit_log_id))
    ORDER BY e.audit_log_id DESC LIMIT 1
)"""

_EMPTIED = f"""
CREATE OR REPLACE FUNCTION audit_log_is_emptied_by_an_erasing() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_erased boolean;
BEGIN
    {on_shards_too("audit_log", _ERASING, into="is_erased", values=("new",))}
    IF is_erased THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = 'audit_log',
        CONSTRAINT = 'audit_log_is_emptied_by_an_erasing',
        MESSAGE = 'entries of the audit log are emptied only by erasing a member whom they concern';
END $$
"""

_EMPTIED_TRIGGER = """
CREATE CONSTRAINT TRIGGER audit_log_is_emptied_by_an_erasing AFTER UPDATE ON audit_log
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (old.salt IS NOT NULL)
EXECUTE FUNCTION audit_log_is_emptied_by_an_erasing()
"""

_SEALS_STAY = """
CREATE OR REPLACE FUNCTION audit_log_seals_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = 'audit_log_seals', CONSTRAINT = 'audit_log_seals_stay',
        MESSAGE = 'seals of the audit log are never changed and never removed';
END $$
"""

_SEALS_STAY_TRIGGER = """
CREATE TRIGGER audit_log_seals_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log_seals
FOR EACH STATEMENT EXECUTE FUNCTION audit_log_seals_stay()
"""

execute_on(
    "after_create",
    audit_log,
    *(_ENTRIES_STAY, _ENTRIES_STAY_TRIGGER, _NO_TRUNCATE_TRIGGER, _EMPTIED, _EMPTIED_TRIGGER),
)
execute_on("after_create", audit_log_seals, _SEALS_STAY, _SEALS_STAY_TRIGGER)
