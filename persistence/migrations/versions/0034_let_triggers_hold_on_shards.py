"""Let the triggers hold on the shards of a distributed database, too

Follows: 0033
"""

from alembic import op

from persistence.tables.guards import GUARDS
from persistence.tables.reports import REPORT_TRIGGERS

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None
EXPANDS = True


def upgrade() -> None:
    """Apply the change."""
    for statement in (*GUARDS, *REPORT_TRIGGERS):
        if "CREATE OR REPLACE FUNCTION" in statement:
            op.execute(statement)


def downgrade() -> None:
    """Leave the functions, which on tables do what the last ones did."""
