"""Members and the tiers they hold."""

from sqlalchemy import Column, Computed, Index, Text, text
from sqlalchemy.dialects.postgresql import JSONB, TSVECTOR

from domain.members import Member
from domain.tier_history import PastMemberTier
from domain.tier_log import TierTracking
from domain.tiers import MemberTier
from persistence.tables.base import (
    belongs_to_organization,
    foreign_key,
    index,
    integers,
    personal,
    record_table,
    tenant_table,
    unique,
)

members = record_table(
    "members",
    Member,
    "member_id",
    # The database computes the searched and filtered parts of the profile, so that they never differ from it.
    Column("email", Text, Computed("lower(profile ->> 'email')", persisted=True)),
    Column("gov_id", Text, Computed("profile -> 'govId' ->> 'id'", persisted=True)),
    # Punctuation is replaced by blanks first, since the parser would keep an email address as one word.
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
    unique("loyalty_member_id"),
    unique("public_loyalty_member_id"),
    index("ix_members_email", "email", where="email IS NOT NULL"),
    index("ix_members_gov_id", "gov_id", where="gov_id IS NOT NULL"),
    index("ix_members_wallet_id", "wallet_id"),
    index("ix_members_created_at", "created_at"),
    index("ix_members_member_type", "member_type", "member_id", where="member_type IS NOT NULL"),
    index(
        "ix_members_channel_acquisition", "channel_acquisition", "member_id", where="channel_acquisition IS NOT NULL"
    ),
    # By the referral code with which the member was referred.
    index("ix_members_referral_code", "referral_code", "member_id", where="referral_code IS NOT NULL"),
    Index("ix_members_search_text", "search_text", postgresql_using="gin"),
    belongs_to_organization(),
    foreign_key("wallets", "wallet_id"),
    defaults={"active": "true"},
)

member_tiers = record_table(
    "member_tiers",
    MemberTier,
    ("member_id", "loyalty_program_id"),
    index("ix_member_tiers_tier", "loyalty_program_id", "loyalty_tier_id"),
    index("ix_member_tiers_expires_at", "expires_at", where="expires_at IS NOT NULL"),
    foreign_key("members", "member_id"),
    foreign_key("loyalty_programs", "loyalty_program_id"),
    foreign_key("loyalty_tiers", "loyalty_tier_id"),
    defaults={"is_manual": "false"},
)

# The tiers that members had before their current ones, for late events.
past_member_tiers = record_table(
    "past_member_tiers",
    PastMemberTier,
    "past_member_tier_id",
    index("ix_past_member_tiers_member", "member_id"),
    foreign_key("members", "member_id"),
    foreign_key("loyalty_programs", "loyalty_program_id"),
)

# Every request or effect that sets a member's tier, or returns the member to the tier of the points (without a
# `loyalty_tier_id`). If an event caused it, the row also has the previous tier, so that it can be reverted.
member_tier_trackings = record_table(
    "member_tier_trackings",
    TierTracking,
    "member_tier_tracking_id",
    unique("system_unique_key"),
    index("ix_member_tier_trackings_member", "member_id", "loyalty_program_id"),
    index("ix_member_tier_trackings_event", "loyalty_event_id", where="loyalty_event_id IS NOT NULL"),
    foreign_key("members", "member_id"),
    foreign_key("loyalty_programs", "loyalty_program_id"),
    defaults={"previous_is_manual": "false"},
)

# Members who were erased by a call, while a job still erases their many rows: all rows of the kinds before number
# `kind` are erased, and of this kind the rows with ids up to `up_to`. `referral_codes` has the former texts of the
# member's referral codes by their ids.
unfinished_erasings = tenant_table(
    "unfinished_erasings",
    ("member_id",),
    *integers("member_id", "kind", "up_to"),
    personal(Column("referral_codes", JSONB, nullable=False, server_default=text("'{}'"))),
    foreign_key("members", "member_id"),
)
