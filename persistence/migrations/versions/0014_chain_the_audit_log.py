"""Chain the audit log

Follows: 0013
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_RENAMED = {"caller": "actor", "action": "operation_id", "subject_type": "entity_type", "subject_id": "entity_id"}

# What there is keeps its words, gets its digests and waits for its seal.
_FILL = """
UPDATE audit_log a SET salt = uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()),
    member_ids = CASE WHEN a.entity_type = 'member' THEN ARRAY[CAST(a.entity_id AS bigint)]
        ELSE CAST('{}' AS bigint[]) END
"""
_DIGEST_WHAT_MAY_BE_ERASED = """
UPDATE audit_log a
SET personal_digest = sha256(a.salt || convert_to(CAST(json_build_array(a.reason, a.changes) AS text), 'UTF8'))
"""
_DIGEST = """
UPDATE audit_log a SET digest = sha256(convert_to(CAST(json_build_array(
    a.organization_id, a.audit_log_id, extract(epoch FROM a.created_at), a.actor, a.user_id, a.token_id, a.surface,
    a.operation_id, a.request_id, a.entity_type, a.entity_id, array_to_json(a.member_ids)
) AS text), 'UTF8') || a.personal_digest)
"""

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
_SEALS_STAY = """
CREATE OR REPLACE FUNCTION audit_log_seals_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = 'audit_log_seals', CONSTRAINT = 'audit_log_seals_stay',
        MESSAGE = 'seals of the audit log are never changed and never removed';
END $$
"""
_TRIGGERS = (
    "CREATE TRIGGER audit_log_stays BEFORE UPDATE OR DELETE ON audit_log"
    " FOR EACH ROW EXECUTE FUNCTION audit_log_stays()",
    "CREATE TRIGGER audit_log_stays_whole BEFORE TRUNCATE ON audit_log"
    " FOR EACH STATEMENT EXECUTE FUNCTION audit_log_stays()",
    "CREATE TRIGGER audit_log_seals_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log_seals"
    " FOR EACH STATEMENT EXECUTE FUNCTION audit_log_seals_stay()",
)
_INDEXES = {
    "ix_audit_log_entity": ["organization_id", "entity_type", "entity_id", "audit_log_id"],
    "ix_audit_log_actor": ["organization_id", "actor", "audit_log_id"],
    "ix_audit_log_operation": ["organization_id", "operation_id", "audit_log_id"],
    "ix_audit_log_request": ["organization_id", "request_id"],
    "ix_audit_log_created_at": ["organization_id", "created_at"],
}


def upgrade() -> None:
    """Change the schema."""
    op.drop_index("ix_audit_log_subject", table_name="audit_log")
    for old, new in _RENAMED.items():
        op.alter_column("audit_log", old, new_column_name=new)
    for column in (
        sa.Column("user_id", sa.BigInteger()),
        sa.Column("token_id", sa.Text()),
        sa.Column("surface", sa.Text()),
        sa.Column("request_id", sa.Text()),
        sa.Column("member_ids", postgresql.ARRAY(sa.BigInteger())),
        sa.Column("salt", sa.LargeBinary()),
        sa.Column("personal_digest", sa.LargeBinary()),
        sa.Column("digest", sa.LargeBinary()),
    ):
        op.add_column("audit_log", column)
    op.execute("ALTER TABLE audit_log ALTER COLUMN changes DROP DEFAULT, ALTER COLUMN changes DROP NOT NULL")
    op.execute("ALTER TABLE audit_log ALTER COLUMN changes TYPE json USING CAST(CAST(changes AS text) AS json)")
    for statement in (_FILL, _DIGEST_WHAT_MAY_BE_ERASED, _DIGEST):
        op.execute(statement)
    for name in ("member_ids", "personal_digest", "digest"):
        op.alter_column("audit_log", name, nullable=False)
    for name, columns in _INDEXES.items():
        op.create_index(name, "audit_log", columns)
    op.create_index("ix_audit_log_members", "audit_log", ["member_ids"], postgresql_using="gin")
    op.create_table(
        "unsealed_audit_log",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("audit_log_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("organization_id", "audit_log_id", name=op.f("pk_unsealed_audit_log")),
        sa.ForeignKeyConstraint(
            ["organization_id", "audit_log_id"],
            ["audit_log.organization_id", "audit_log.audit_log_id"],
            name=op.f("fk_unsealed_audit_log_organization_id"),
        ),
    )
    op.execute("INSERT INTO unsealed_audit_log SELECT organization_id, audit_log_id FROM audit_log")
    op.create_table(
        "audit_log_seals",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("seal_number", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("audit_log_ids", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("previous_hash", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("organization_id", "seal_number", name=op.f("pk_audit_log_seals")),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name=op.f("fk_audit_log_seals_organization_id")
        ),
    )
    for statement in (_ENTRIES_STAY, _SEALS_STAY, *_TRIGGERS):
        op.execute(statement)


def downgrade() -> None:
    """Change it back; what was erased stays so."""
    op.drop_table("audit_log_seals")
    op.drop_table("unsealed_audit_log")
    op.execute("DROP TRIGGER audit_log_stays ON audit_log")
    op.execute("DROP TRIGGER audit_log_stays_whole ON audit_log")
    op.execute("DROP FUNCTION audit_log_stays")
    op.execute("DROP FUNCTION audit_log_seals_stay")
    for name in (*_INDEXES, "ix_audit_log_members"):
        op.drop_index(name, table_name="audit_log")
    for name in ("user_id", "token_id", "surface", "request_id", "member_ids", "salt", "personal_digest", "digest"):
        op.drop_column("audit_log", name)
    op.execute("UPDATE audit_log SET changes = '{}' WHERE changes IS NULL")
    op.execute("ALTER TABLE audit_log ALTER COLUMN changes TYPE jsonb USING CAST(CAST(changes AS text) AS jsonb)")
    op.execute("ALTER TABLE audit_log ALTER COLUMN changes SET DEFAULT '{}', ALTER COLUMN changes SET NOT NULL")
    for old, new in _RENAMED.items():
        op.alter_column("audit_log", new, new_column_name=old)
    op.create_index("ix_audit_log_subject", "audit_log", ["organization_id", "subject_type", "subject_id"])
