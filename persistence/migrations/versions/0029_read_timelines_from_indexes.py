"""Read timelines from indexes

Follows: 0028
"""

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_INDEXES = (
    ("ix_badge_trackings_timeline", "badge_trackings", "member_id, badge_tracking_id"),
    ("ix_mission_trackings_timeline", "mission_trackings", "member_id, mission_tracking_id"),
    ("ix_referral_logs_made", "referral_logs", "referrer_member_id, referral_log_id"),
    ("ix_referral_logs_used", "referral_logs", "referred_member_id, referral_log_id"),
)


def upgrade() -> None:
    """Apply the change."""
    for name, table, columns in _INDEXES:
        op.execute(f"CREATE INDEX {name} ON {table} (organization_id, {columns})")
    op.execute(
        "CREATE INDEX ix_events_tier ON events (organization_id, member_id, loyalty_event_id)"
        " WHERE event_type IN ('member-tier-set', 'member-tier-removed')"
    )
    _deliveries_by("member_id, trigger_delivery_id")


def downgrade() -> None:
    """Take the change back."""
    _deliveries_by("member_id")
    for name in ("ix_events_tier", *(name for name, _, _ in _INDEXES)):
        op.execute(f"DROP INDEX {name}")


def _deliveries_by(columns: str) -> None:
    op.execute("DROP INDEX ix_trigger_deliveries_member")
    op.execute(
        f"CREATE INDEX ix_trigger_deliveries_member ON trigger_deliveries (organization_id, {columns})"
        " WHERE member_id IS NOT NULL"
    )
