"""Badges, members' balances of them, and every change."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from persistence.tables.base import (
    belongs_to_organization,
    created_and_updated,
    document,
    external_key,
    instant,
    key,
    metadata,
    refers_to,
    tenant_table,
    texts,
)

badges = tenant_table(
    "badges",
    "badge_id",
    key("badge_key"),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("picture_url", Text),
    Column("max_amount", BigInteger, nullable=False),
    Column("active", Boolean, nullable=False),
    texts("tags"),
    document("custom_attributes"),
    *external_key(),
    *created_and_updated(),
    UniqueConstraint("organization_id", "badge_key"),
    belongs_to_organization(),
)

# By member first: reads are for a few members. A row comes with the first assignment and stays.
member_badges = Table(
    "member_badges",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("member_id", BigInteger, nullable=False),
    Column("badge_id", BigInteger, nullable=False),
    Column("assigned_balance", BigInteger, nullable=False),
    instant("updated_at", nullable=False),
    PrimaryKeyConstraint("organization_id", "member_id", "badge_id"),
    CheckConstraint("assigned_balance >= 0", "assigned_balance"),
    refers_to("members", "member_id"),
    refers_to("badges", "badge_id"),
)

badge_trackings = tenant_table(
    "badge_trackings",
    "badge_tracking_id",
    key("badge_tracking_key"),
    Column("badge_id", BigInteger, nullable=False),
    Column("member_id", BigInteger, nullable=False),
    # The amount added, negative if taken away, and the member's balance after it.
    Column("amount_assigned", BigInteger, nullable=False),
    Column("updated_total_assigned", BigInteger, nullable=False),
    Column("system_unique_key", Text, nullable=False),
    Column("request_digest", LargeBinary, nullable=False),
    document("custom_attributes"),
    Column("external_id", Text),
    # The event whose campaigns or cancellation made the tracking; null for one by request.
    Column("loyalty_event_id", BigInteger),
    Column("reverted_badge_tracking_id", BigInteger),
    Column("reversal_badge_tracking_id", BigInteger),
    # What a reversal could not take from the member yet, negative if it could not give it.
    Column("missing", BigInteger, nullable=False, server_default=text("0")),
    instant("created_at", nullable=False),
    UniqueConstraint("organization_id", "badge_tracking_key"),
    UniqueConstraint("organization_id", "system_unique_key"),
    Index("ix_badge_trackings_member", "organization_id", "member_id", "badge_id", "badge_tracking_id"),
    # All badges of a member together, for the timeline.
    Index("ix_badge_trackings_timeline", "organization_id", "member_id", "badge_tracking_id"),
    Index(
        "ix_badge_trackings_event",
        "organization_id",
        "loyalty_event_id",
        postgresql_where=text("loyalty_event_id IS NOT NULL"),
    ),
    Index(
        "ix_badge_trackings_missing",
        "organization_id",
        "member_id",
        postgresql_where=text("missing <> 0"),
    ),
    refers_to("members", "member_id"),
    refers_to("badges", "badge_id"),
    refers_to("badge_trackings", "reverted_badge_tracking_id", target=("badge_tracking_id",)),
    refers_to("badge_trackings", "reversal_badge_tracking_id", target=("badge_tracking_id",)),
)
