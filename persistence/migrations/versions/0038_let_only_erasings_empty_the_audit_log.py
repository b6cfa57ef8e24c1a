"""Let only erasings empty entries of the audit log

Follows: 0037
"""

from alembic import op

from persistence.tables.audit_log import AUDIT_LOG_EMPTIED_GUARDS

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None
EXPANDS = True


def upgrade() -> None:
    """Apply the change."""
    for statement in AUDIT_LOG_EMPTIED_GUARDS:
        op.execute(statement)


def downgrade() -> None:
    """Undo the change."""
    op.execute("DROP TRIGGER audit_log_is_emptied_by_an_erasing ON audit_log")
    op.execute("DROP FUNCTION audit_log_is_emptied_by_an_erasing")
