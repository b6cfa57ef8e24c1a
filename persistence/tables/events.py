"""Loyalty events, custom event types, and the purchase orders built from events."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    Index,
    LargeBinary,
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

custom_event_types = Table(
    "custom_event_types",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("api_code", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("schema_type", Text, nullable=False),
    Column("active", Boolean, nullable=False),
    document("custom_attributes"),
    *external_key(),
    *created_and_updated(),
    PrimaryKeyConstraint("organization_id", "api_code"),
    belongs_to_organization(),
)

events = tenant_table(
    "events",
    "loyalty_event_id",
    key("loyalty_event_key"),
    Column("member_id", BigInteger, nullable=False),
    Column("sponsor_member_id", BigInteger),
    Column("event_type", Text, nullable=False),
    Column("system_unique_key", Text, nullable=False),
    Column("request_digest", LargeBinary, nullable=False),
    Column("external_id", Text),
    instant("external_event_date"),
    Column("description", Text),
    Column("reason", Text),
    Column("payload", JSON, nullable=False),
    Column("tags", ARRAY(Text)),
    Column("location", Text),
    Column("e2e_tracking_id", Text),
    # The caller of the request: the subject of the token and its user.
    Column("actor", Text),
    Column("user_id", BigInteger),
    Column("reverted_loyalty_event_id", BigInteger),
    Column("reversal_loyalty_event_id", BigInteger),
    # The event that made the server report this one.
    Column("cause_loyalty_event_id", BigInteger),
    Column("evaluation_status", SmallInteger, nullable=False),
    Column("status", Text, nullable=False),
    Column("last_error", JSONB(none_as_null=True)),
    exact("limit_discarded_total_amount", nullable=False, default="0"),
    Column("limit_counters", JSONB, nullable=False),
    # The answer to this event, so that a repeated request gets exactly the same answer.
    Column("result", JSON, nullable=False),
    # The moment of evaluation of an event that was only captured at first.
    instant("evaluated_at"),
    *created_and_updated(),
    UniqueConstraint("organization_id", "system_unique_key"),
    Index("ix_events_key", "organization_id", "loyalty_event_key"),
    Index("ix_events_member", "organization_id", "member_id", "loyalty_event_id"),
    # The changes of a member's tiers.
    Index(
        "ix_events_tier",
        "organization_id",
        "member_id",
        "loyalty_event_id",
        postgresql_where=text("event_type IN ('member-tier-set', 'member-tier-removed')"),
    ),
    # Reports read the records themselves where a range begins or ends within a quarter of an hour.
    Index("ix_events_date", "organization_id", text("coalesce(external_event_date, created_at)")),
    Index(
        "ix_events_reversal",
        "organization_id",
        "reversal_loyalty_event_id",
        postgresql_where=text("reversal_loyalty_event_id IS NOT NULL"),
    ),
    Index(
        "ix_events_cause",
        "organization_id",
        "cause_loyalty_event_id",
        postgresql_where=text("cause_loyalty_event_id IS NOT NULL"),
    ),
    refers_to("members", "member_id"),
)

purchase_orders = tenant_table(
    "purchase_orders",
    "order_id",
    Column("member_id", BigInteger, nullable=False),
    Column("loyalty_event_id", BigInteger, nullable=False),
    # The events that led to the order's state before any return, its creation first.
    Column("event_ids", ARRAY(BigInteger), nullable=False),
    Column("loyalty_program_id", BigInteger),
    instant("external_event_date"),
    Column("external_id", Text, nullable=False),
    Column("description", Text),
    document("custom_attributes"),
    Column("type", Text),
    texts("tags"),
    exact("total", nullable=False),
    exact("discounted_total"),
    exact("sub_total"),
    Column("merchant_id", Text),
    Column("payment_method", Text),
    Column("location_code", Text),
    Column("referral_code", Text),
    Column("channel", Text),
    document("coupons"),
    Column("status", Text, nullable=False),
    # The value of the items returned so far, of `total`.
    exact("returned_total", nullable=False, default="0"),
    *created_and_updated(),
    UniqueConstraint("organization_id", "external_id"),
    Index("ix_purchase_orders_member", "organization_id", "member_id", "order_id"),
    Index(
        "ix_purchase_orders_referral_code",
        "organization_id",
        "referral_code",
        postgresql_where=text("referral_code IS NOT NULL"),
    ),
    refers_to("members", "member_id"),
)

order_items = tenant_table(
    "order_items",
    "order_item_id",
    Column("order_id", BigInteger, nullable=False),
    Column("product_code", Text),
    Column("description", Text),
    document("custom_attributes"),
    exact("total"),
    exact("amount"),
    exact("quantity"),
    exact("discounted_total"),
    exact("sub_total"),
    Column("category_code", Text),
    # The returned part of `quantity` and of `total`.
    exact("returned_quantity", nullable=False, default="0"),
    exact("returned_total", nullable=False, default="0"),
    *created_and_updated(),
    Index("ix_order_items_order", "organization_id", "order_id"),
    refers_to("purchase_orders", "order_id"),
)
