"""Triggers, and the messages to their receivers: written with the changes that they report, sent afterwards."""

from sqlalchemy import Boolean, Column, Index, Integer, SmallInteger, Text, UniqueConstraint, Uuid, text
from sqlalchemy.dialects.postgresql import JSON
from sqlalchemy.types import BigInteger

from persistence.tables.base import (
    belongs_to_organization,
    created_and_updated,
    document,
    external_key,
    instant,
    refers_to,
    tenant_table,
)

triggers = tenant_table(
    "triggers",
    "trigger_id",
    Column("trigger_key", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("active", Boolean, nullable=False),
    document("settings"),
    Column("secret", Text, nullable=False),
    # Signs beside the secret until then.
    Column("previous_secret", Text),
    instant("previous_secret_until"),
    *external_key(),
    *created_and_updated(),
    UniqueConstraint("organization_id", "trigger_key"),
    belongs_to_organization(),
)

trigger_deliveries = tenant_table(
    "trigger_deliveries",
    "trigger_delivery_id",
    Column("trigger_delivery_key", Uuid(as_uuid=False), nullable=False, server_default=text("gen_random_uuid()")),
    Column("trigger_id", BigInteger, nullable=False),
    Column("type", Text, nullable=False),
    # The member whom the message is about, so that it is deleted when the member is erased.
    Column("member_id", BigInteger),
    # As text, so that every attempt sends, and signs, the same bytes.
    Column("payload", JSON, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempts", SmallInteger, nullable=False, server_default=text("0")),
    instant("next_attempt_at", default="now()"),
    instant("last_attempt_at"),
    Column("last_status_code", Integer),
    Column("last_error", Text),
    instant("delivered_at"),
    *created_and_updated(),
    Index("ix_trigger_deliveries_trigger", "organization_id", "trigger_id", "trigger_delivery_id"),
    Index(
        "ix_trigger_deliveries_due",
        "organization_id",
        "trigger_id",
        "next_attempt_at",
        postgresql_where=text("status = 'pending'"),
    ),
    Index(
        "ix_trigger_deliveries_member",
        "organization_id",
        "member_id",
        "trigger_delivery_id",
        postgresql_where=text("member_id IS NOT NULL"),
    ),
    refers_to("triggers", "trigger_id"),
)
