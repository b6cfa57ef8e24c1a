"""Triggers, the messages to their receivers, and periodic jobs."""

from sqlalchemy import Column, Integer, SmallInteger, Table, Text
from sqlalchemy.dialects.postgresql import JSON, JSONB
from sqlalchemy.types import BigInteger

from domain.triggers import Trigger, TriggerDelivery
from persistence.tables.base import belongs_to_organization, foreign_key, index, instant, metadata, record_table, unique

triggers = record_table(
    "triggers",
    Trigger,
    "trigger_id",
    unique("trigger_key"),
    belongs_to_organization(),
)

trigger_deliveries = record_table(
    "trigger_deliveries",
    TriggerDelivery,
    "trigger_delivery_id",
    # The member whom the message is about, so that it is deleted when the member is erased.
    Column("member_id", BigInteger),
    index("ix_trigger_deliveries_trigger", "trigger_id", "trigger_delivery_id"),
    index("ix_trigger_deliveries_due", "trigger_id", "next_attempt_at", where="status = 'pending'"),
    index("ix_trigger_deliveries_member", "member_id", "trigger_delivery_id", where="member_id IS NOT NULL"),
    foreign_key("triggers", "trigger_id"),
    types={"payload": JSON, "attempts": SmallInteger, "last_status_code": Integer},
    defaults={"trigger_delivery_key": "gen_random_uuid()", "attempts": "0", "next_attempt_at": "now()"},
)

# Jobs of the whole installation: each of them works for all organizations.
periodic_jobs = Table(
    "periodic_jobs",
    metadata,
    Column("name", Text, primary_key=True),
    instant("next_run_at", nullable=False),
    instant("started_at"),
    instant("finished_at"),
    Column("last_result", JSONB(none_as_null=True)),
    Column("last_error", Text),
)
