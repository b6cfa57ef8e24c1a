"""Campaigns, their actions, and the counters of their limits."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    Date,
    Integer,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSON, JSONB

from persistence.tables.base import (
    belongs_to_organization,
    created_and_updated,
    document,
    exact,
    external_key,
    instant,
    key,
    metadata,
    refers_to,
    tenant_table,
    texts,
)

campaigns = tenant_table(
    "campaigns",
    "campaign_id",
    key("campaign_key"),
    # Counts the changes of the campaign and of its actions.
    Column("campaign_version_id", BigInteger, nullable=False, server_default=text("1")),
    Column("loyalty_program_id", BigInteger),
    Column("code", Text, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("picture_url", Text),
    Column("type", Text),
    texts("tags"),
    texts("enabled_topics"),
    texts("audience_keys"),
    Column("days_of_week", ARRAY(SmallInteger), nullable=False, server_default=text("'{}'")),
    texts("location_codes"),
    texts("loyalty_tier_keys"),
    Column("event_type", Text),
    exact("points_monthly_limit_per_member"),
    Column("allow_partial_application_on_limit", Boolean, nullable=False, server_default=text("false")),
    Column("max_transactions_per_member", BigInteger),
    Column("limit_rules", JSONB, nullable=False, server_default=text("'[]'")),
    exact("min_spend_value"),
    document("custom_attributes"),
    document("smart_rewards"),
    instant("valid_from"),
    instant("valid_to"),
    # An IANA name; null is the organization's.
    Column("timezone", Text),
    *external_key(),
    *created_and_updated(),
    UniqueConstraint("organization_id", "campaign_key"),
    UniqueConstraint("organization_id", "code"),
    belongs_to_organization(),
    refers_to("loyalty_programs", "loyalty_program_id"),
)

campaign_actions = tenant_table(
    "campaign_actions",
    "action_id",
    key("action_key"),
    Column("campaign_id", BigInteger, nullable=False),
    # That of the campaign: a change of any action is one of the whole campaign.
    Column("campaign_version_id", BigInteger, nullable=False),
    Column("action_index", Integer, nullable=False),
    Column("abort_evaluation_if_false", Boolean, nullable=False, server_default=text("false")),
    Column("abort_evaluation_on_error", Boolean, nullable=False, server_default=text("false")),
    Column("name", Text),
    # Kept as they were written, members in their order.
    Column("rules", JSON, nullable=False),
    Column("effects", JSON, nullable=False),
    Column("status", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("exclusive_group", Text),
    *external_key(),
    *created_and_updated(),
    refers_to("campaigns", "campaign_id"),
)

# member_id 0 counts for all members together, ledger_account_id 0 for all accounts or for transactions.
campaign_limit_counters = Table(
    "campaign_limit_counters",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("campaign_id", BigInteger, nullable=False),
    Column("member_id", BigInteger, nullable=False),
    Column("ledger_account_id", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    Column("period", Text, nullable=False),
    Column("period_start", Date, nullable=False),
    exact("used", nullable=False),
    PrimaryKeyConstraint(
        "organization_id", "member_id", "campaign_id", "type", "period", "period_start", "ledger_account_id"
    ),
    refers_to("campaigns", "campaign_id"),
    postgresql_with={"fillfactor": "70"},
)
