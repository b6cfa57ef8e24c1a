"""Missions, members' progress in them, and the counts of events and requests."""

from sqlalchemy import BigInteger, Column
from sqlalchemy.dialects.postgresql import JSON

from domain.missions.records import Mission, MissionTracking
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

missions = record_table(
    "missions",
    Mission,
    "mission_id",
    unique("mission_key"),
    unique("code"),
    belongs_to_organization(),
    foreign_key("campaigns", "campaign_id"),
    foreign_key("loyalty_programs", "loyalty_program_id"),
    foreign_key("audiences", "audience_id"),
    foreign_key("matchers", "matcher_id"),
    foreign_key("ledgers", "ledger_id"),
    foreign_key("ledger_accounts", "ledger_account_id"),
    defaults={"available_rounding": "'none'"},
)

# The key begins with the member, since every event needs the progress of a few members. `goal_count` is the goal of the
# mission when `counted` was computed, or a higher one, see `Progress.with_positive_count`.
member_missions = tenant_table(
    "member_missions",
    ("member_id", "mission_id"),
    *integers("member_id", "mission_id", "goal_count", "counted", "times_achieved"),
    Column("last_counter_count_when_achieved", BigInteger),
    instant("last_achieved_at"),
    instant("updated_at", nullable=False),
    index("ix_member_missions_mission", "mission_id"),
    foreign_key("members", "member_id"),
    foreign_key("missions", "mission_id"),
    postgresql_with={"fillfactor": "70"},
)

mission_trackings = record_table(
    "mission_trackings",
    MissionTracking,
    "mission_tracking_id",
    unique("system_unique_key"),
    # Limits for a period count unreversed achievements.
    index(
        "ix_mission_trackings_achieved",
        "member_id",
        "mission_id",
        "happened_at",
        where="achieved > 0 AND reversal_loyalty_event_id IS NULL",
    ),
    # For the timeline, which has all missions of a member.
    index("ix_mission_trackings_timeline", "member_id", "mission_tracking_id"),
    # The trackings that requests caused, not events.
    index("ix_mission_trackings_request", "member_id", where="loyalty_event_id IS NULL"),
    index("ix_mission_trackings_event", "loyalty_event_id", where="loyalty_event_id IS NOT NULL"),
    foreign_key("members", "member_id"),
    foreign_key("missions", "mission_id"),
    types={"answer": JSON(none_as_null=True)},
    defaults={"is_imported": "false"},
)
