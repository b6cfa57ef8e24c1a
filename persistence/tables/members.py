"""Members and the tiers they hold."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Computed,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import TSVECTOR

from persistence.tables.base import (
    belongs_to_organization,
    created_and_updated,
    document,
    instant,
    metadata,
    refers_to,
    tenant_table,
    texts,
)

members = tenant_table(
    "members",
    "member_id",
    Column("loyalty_member_id", Text, nullable=False),
    Column("public_loyalty_member_id", Text),
    Column("active", Boolean, nullable=False, server_default=text("true")),
    Column("member_type", Text),
    Column("channel_acquisition", Text),
    Column("referral_code", Text),
    document("profile"),
    document("custom_attributes"),
    document("notifications"),
    document("on_chain"),
    Column("wallet_id", BigInteger, nullable=False),
    Column("wallet_key", Uuid(as_uuid=False), nullable=False),
    *created_and_updated(),
    # When the member's personal data was erased.
    instant("erased_at"),
    # Searched and filtered parts of the profile are computed from it, so the two can never differ.
    Column("email", Text, Computed("lower(profile ->> 'email')", persisted=True)),
    Column("gov_id", Text, Computed("profile -> 'govId' ->> 'id'", persisted=True)),
    # Punctuation becomes blanks first: the parser would otherwise keep an email address as one word.
    Column(
        "search_text",
        TSVECTOR,
        Computed(
            "to_tsvector('simple', regexp_replace(coalesce(profile ->> 'name', '')"
            " || ' ' || coalesce(profile ->> 'lastName', '') || ' ' || coalesce(profile ->> 'nickname', '')"
            " || ' ' || coalesce(profile ->> 'email', '') || ' ' || loyalty_member_id, '[!-/:-@\\[-`{-~]+', ' ', 'g'))",
            persisted=True,
        ),
    ),
    UniqueConstraint("organization_id", "loyalty_member_id"),
    UniqueConstraint("organization_id", "public_loyalty_member_id"),
    Index("ix_members_email", "organization_id", "email", postgresql_where=text("email IS NOT NULL")),
    Index("ix_members_gov_id", "organization_id", "gov_id", postgresql_where=text("gov_id IS NOT NULL")),
    Index("ix_members_wallet_id", "organization_id", "wallet_id"),
    Index("ix_members_created_at", "organization_id", "created_at"),
    Index(
        "ix_members_member_type",
        "organization_id",
        "member_type",
        "member_id",
        postgresql_where=text("member_type IS NOT NULL"),
    ),
    Index(
        "ix_members_channel_acquisition",
        "organization_id",
        "channel_acquisition",
        "member_id",
        postgresql_where=text("channel_acquisition IS NOT NULL"),
    ),
    # The member was referred by this referral code.
    Index(
        "ix_members_referral_code",
        "organization_id",
        "referral_code",
        "member_id",
        postgresql_where=text("referral_code IS NOT NULL"),
    ),
    Index("ix_members_search_text", "search_text", postgresql_using="gin"),
    belongs_to_organization(),
    refers_to("wallets", "wallet_id"),
)

member_tiers = Table(
    "member_tiers",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("member_id", BigInteger, nullable=False),
    Column("loyalty_program_id", BigInteger, nullable=False),
    Column("loyalty_tier_id", BigInteger, nullable=False),
    # Set by request or effect: it stays whatever the points, until it expires.
    Column("is_manual", Boolean, nullable=False, server_default=text("false")),
    instant("expires_at"),
    instant("created_at", nullable=False),
    PrimaryKeyConstraint("organization_id", "member_id", "loyalty_program_id"),
    Index("ix_member_tiers_tier", "organization_id", "loyalty_program_id", "loyalty_tier_id"),
    Index(
        "ix_member_tiers_expires_at",
        "organization_id",
        "expires_at",
        postgresql_where=text("expires_at IS NOT NULL"),
    ),
    refers_to("members", "member_id"),
    refers_to("loyalty_programs", "loyalty_program_id"),
    refers_to("loyalty_tiers", "loyalty_tier_id"),
)

# Every request or effect that sets a member's tier, or gives it back to the evaluation by points (no
# `loyalty_tier_id`). What an event set is kept with what there was before, so that it can be taken back.
member_tier_trackings = tenant_table(
    "member_tier_trackings",
    "member_tier_tracking_id",
    Column("member_id", BigInteger, nullable=False),
    Column("loyalty_program_id", BigInteger, nullable=False),
    Column("loyalty_tier_id", BigInteger),
    # The member's tier after the request, as answered.
    Column("answered_tier_id", BigInteger),
    instant("expires_at"),
    Column("system_unique_key", Text, nullable=False),
    Column("request_digest", LargeBinary, nullable=False),
    Column("external_id", Text),
    Column("description", Text),
    texts("tags"),
    Column("loyalty_event_id", BigInteger),
    Column("previous_tier_id", BigInteger),
    Column("previous_is_manual", Boolean, nullable=False, server_default=text("false")),
    instant("previous_expires_at"),
    Column("reversal_loyalty_event_id", BigInteger),
    instant("created_at", nullable=False),
    UniqueConstraint("organization_id", "system_unique_key"),
    Index("ix_member_tier_trackings_member", "organization_id", "member_id", "loyalty_program_id"),
    Index(
        "ix_member_tier_trackings_event",
        "organization_id",
        "loyalty_event_id",
        postgresql_where=text("loyalty_event_id IS NOT NULL"),
    ),
    refers_to("members", "member_id"),
    refers_to("loyalty_programs", "loyalty_program_id"),
)
