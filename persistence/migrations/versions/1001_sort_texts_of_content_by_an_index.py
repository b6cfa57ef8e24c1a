"""Sort texts of content by an index

Follows: 1000
"""

import sqlalchemy as sa
from alembic import op

revision = "1001"
down_revision = "1000"
branch_labels = None
depends_on = None

# Case and accents count only between texts that are equal without them.
_ORDER = (
    """(left(lower(regexp_replace(normalize(text_value, NFKD), '[\\u0300-\\u036F]', '', 'g') COLLATE "default"), 64)"""
    """ COLLATE "C") || (chr(1) || text_value)"""
)


def upgrade() -> None:
    """Add the index; older servers go on sorting by the text itself."""
    op.create_index(
        "ix_content_values_order",
        "content_values",
        ["organization_id", "series", sa.text(f"({_ORDER})"), "content_document_id"],
        postgresql_where=sa.text("position = 0"),
    )
