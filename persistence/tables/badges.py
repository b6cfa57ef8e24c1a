"""Badges, the members' balances of badges, and every change of a balance."""

from sqlalchemy import CheckConstraint

from domain.badges import Badge, BadgeTracking
from persistence.tables.base import (
    belongs_to_organization,
    foreign_key,
    index,
    instant,
    integers,
    record_table,
    tenant_table,
    unique,
)

badges = record_table(
    "badges",
    Badge,
    "badge_id",
    unique("badge_key"),
    belongs_to_organization(),
)

# The key begins with the member, since reads are for a few members. The first assignment inserts a row, which stays.
member_badges = tenant_table(
    "member_badges",
    ("member_id", "badge_id"),
    *integers("member_id", "badge_id", "assigned_balance"),
    instant("updated_at", nullable=False),
    CheckConstraint("assigned_balance >= 0", "assigned_balance"),
    foreign_key("members", "member_id"),
    foreign_key("badges", "badge_id"),
)

badge_trackings = record_table(
    "badge_trackings",
    BadgeTracking,
    "badge_tracking_id",
    unique("badge_tracking_key"),
    unique("system_unique_key"),
    index("ix_badge_trackings_member", "member_id", "badge_id", "badge_tracking_id"),
    # For the timeline, which has all badges of a member.
    index("ix_badge_trackings_timeline", "member_id", "badge_tracking_id"),
    index("ix_badge_trackings_event", "loyalty_event_id", where="loyalty_event_id IS NOT NULL"),
    index("ix_badge_trackings_missing", "member_id", where="missing <> 0"),
    foreign_key("members", "member_id"),
    foreign_key("badges", "badge_id"),
    foreign_key("badge_trackings", "reverted_badge_tracking_id", target=("badge_tracking_id",)),
    foreign_key("badge_trackings", "reversal_badge_tracking_id", target=("badge_tracking_id",)),
    defaults={"missing": "0"},
    without=("badge_key",),
)
