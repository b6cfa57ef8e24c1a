"""Give organizations an environment

Follows: 0029
"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_ENVIRONMENT_STAYS = """
CREATE OR REPLACE FUNCTION organization_environment_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = 'organizations',
        CONSTRAINT = 'organization_environment_stays', MESSAGE = 'the environment of an organization is never changed';
END $$
"""

_ENVIRONMENT_STAYS_TRIGGER = """
CREATE TRIGGER organization_environment_stays BEFORE UPDATE ON organizations
FOR EACH ROW WHEN (old.environment <> new.environment) EXECUTE FUNCTION organization_environment_stays()
"""

_ENTRIES_STAY = """
CREATE OR REPLACE FUNCTION ledger_entries_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN{exception}
    RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = 'ledger_entries', CONSTRAINT = 'ledger_entries_stay',
        MESSAGE = 'ledger entries are never changed and never removed';
END $$
"""

_UNLESS_TEST = """
    IF TG_LEVEL = 'ROW' AND EXISTS (
        SELECT FROM organizations WHERE organization_id = old.organization_id AND environment = 'test'
    ) THEN
        RETURN old;
    END IF;"""


def upgrade() -> None:
    """Apply the change."""
    op.add_column("organizations", sa.Column("environment", sa.Text(), nullable=False, server_default="live"))
    op.create_check_constraint(op.f("ck_organizations_environment"), "organizations", "environment IN ('live', 'test')")
    op.execute(_ENVIRONMENT_STAYS)
    op.execute(_ENVIRONMENT_STAYS_TRIGGER)
    op.execute(_ENTRIES_STAY.format(exception=_UNLESS_TEST))
    _drop_triggers_of_entries()
    op.execute(
        "CREATE TRIGGER ledger_entries_stay BEFORE UPDATE OR TRUNCATE ON ledger_entries"
        " FOR EACH STATEMENT EXECUTE FUNCTION ledger_entries_stay()"
    )
    op.execute(
        "CREATE TRIGGER ledger_entries_stay_each BEFORE DELETE ON ledger_entries"
        " FOR EACH ROW EXECUTE FUNCTION ledger_entries_stay()"
    )


def downgrade() -> None:
    """Take the change back."""
    _drop_triggers_of_entries()
    op.execute(_ENTRIES_STAY.format(exception=""))
    op.execute(
        "CREATE TRIGGER ledger_entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries"
        " FOR EACH STATEMENT EXECUTE FUNCTION ledger_entries_stay()"
    )
    op.execute("DROP TRIGGER organization_environment_stays ON organizations")
    op.execute("DROP FUNCTION organization_environment_stays")
    op.drop_constraint(op.f("ck_organizations_environment"), "organizations", type_="check")
    op.drop_column("organizations", "environment")


def _drop_triggers_of_entries() -> None:
    # A new database has those of today from its first migration on.
    for name in ("ledger_entries_stay", "ledger_entries_stay_each"):
        op.execute(f"DROP TRIGGER IF EXISTS {name} ON ledger_entries")
