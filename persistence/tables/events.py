"""Loyalty events, custom event types, the queue, and the purchase orders built from events."""

from sqlalchemy import ARRAY, BigInteger, Column, SmallInteger, text
from sqlalchemy.dialects.postgresql import JSON, JSONB

from domain.event_types import CustomEventType
from domain.events import LoyaltyEvent
from domain.orders import Order, OrderItem
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

custom_event_types = record_table(
    "custom_event_types",
    CustomEventType,
    ("api_code",),
    belongs_to_organization(),
)

events = record_table(
    "events",
    LoyaltyEvent,
    "loyalty_event_id",
    # The response to this event, so that a repeated request gets exactly the same response.
    Column("result", JSON, nullable=False),
    unique("system_unique_key"),
    index("ix_events_key", "loyalty_event_key"),
    index("ix_events_member", "member_id", "loyalty_event_id"),
    # The changes of a member's tiers.
    index(
        "ix_events_tier",
        "member_id",
        "loyalty_event_id",
        where="event_type IN ('member-tier-set', 'member-tier-removed')",
    ),
    # The events that report that waiting points of a member became available.
    index("ix_events_release", "member_id", "loyalty_event_id", where="event_type = 'points-available'"),
    # Reports read the events themselves if a range begins or ends within a quarter of an hour.
    index("ix_events_date", text("coalesce(external_event_date, created_at)")),
    index("ix_events_reversal", "reversal_loyalty_event_id", where="reversal_loyalty_event_id IS NOT NULL"),
    index("ix_events_cause", "cause_loyalty_event_id", where="cause_loyalty_event_id IS NOT NULL"),
    # Cooldowns look at what campaigns gave a member around a moment.
    index(
        "ix_events_cooldown",
        "member_id",
        text("coalesce(external_event_date, created_at)"),
        where="cooldown_campaign_ids IS NOT NULL",
    ),
    foreign_key("members", "member_id"),
    types={
        "payload": JSON,
        "evaluation_status": SmallInteger,
        "limit_counters": JSONB,
        "grants": JSON(none_as_null=True),
        "cooldown_campaign_ids": ARRAY(BigInteger),
    },
    defaults={"limit_discarded_total_amount": "0"},
)

purchase_orders = record_table(
    "purchase_orders",
    Order,
    "order_id",
    unique("external_id"),
    index("ix_purchase_orders_member", "member_id", "order_id"),
    index("ix_purchase_orders_referral_code", "referral_code", where="referral_code IS NOT NULL"),
    foreign_key("members", "member_id"),
    types={"event_ids": ARRAY(BigInteger)},
    defaults={"returned_total": "0"},
)

order_items = record_table(
    "order_items",
    OrderItem,
    "order_item_id",
    index("ix_order_items_order", "order_id"),
    foreign_key("purchase_orders", "order_id"),
    defaults={"returned_quantity": "0", "returned_total": "0"},
)

# Not columns of the event: these rows are short, and are deleted when the event is done.
queued_events = tenant_table(
    "queued_events",
    ("loyalty_event_id",),
    *integers("loyalty_event_id", "member_id"),
    # The event's position in the queue of its member: first its own id, after it was queued again a higher id.
    Column("place", BigInteger, nullable=False),
    Column("attempts", SmallInteger, nullable=False),
    instant("next_attempt_at", nullable=False),
    instant("queued_at", nullable=False),
    # When workers gave the event up; null unless it is a dead letter.
    instant("dead_at"),
    # The only index of waiting events: by the statistics of an empty queue, the planner could choose a worse one.
    index("ix_queued_events_line", "member_id", "place", where="dead_at IS NULL"),
    index("ix_queued_events_dead", "loyalty_event_id", where="dead_at IS NOT NULL"),
    foreign_key("events", "loyalty_event_id"),
)
