"""Give test organizations a clock

Follows: 1009
"""

import sqlalchemy as sa
from alembic import op

revision = "1010"
down_revision = "1009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns. An older server would go by the real time, so it does not work with them."""
    op.add_column("audit_log", sa.Column("test_clock", sa.DateTime(timezone=True)))
    for name in ("clock_now", "clock_target", "clock_started_at"):
        op.add_column("organizations", sa.Column(name, sa.DateTime(timezone=True)))
    op.add_column("organizations", sa.Column("clock_steps", sa.BigInteger))
    op.add_column("organizations", sa.Column("clock_error", sa.Text))
    op.create_check_constraint(
        op.f("ck_organizations_clock"), "organizations", "clock_now IS NULL OR environment = 'test'"
    )
