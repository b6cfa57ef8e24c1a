"""Create the schema of version 1.0.0

Follows:
"""

from pathlib import Path

from alembic import op

revision = "1000"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Run the statements of the file beside this one, which are frozen: tables may change, a migration does not."""
    statements = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(statements)
