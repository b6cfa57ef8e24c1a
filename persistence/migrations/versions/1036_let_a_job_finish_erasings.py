"""Let a job finish erasings

Follows: 1035
"""

import sqlalchemy as sa
from alembic import op

revision = "1036"
down_revision = "1035"
branch_labels = None
depends_on = None

EXPANDS = True


def upgrade() -> None:
    """Add the erased members whose rows are still being erased."""
    op.create_table(
        "unfinished_erasings",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("member_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.BigInteger(), nullable=False),
        sa.Column("up_to", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "member_id"],
            ["members.organization_id", "members.member_id"],
            name=op.f("fk_unfinished_erasings_organization_id_member_id"),
        ),
        sa.PrimaryKeyConstraint("organization_id", "member_id", name=op.f("pk_unfinished_erasings")),
    )
