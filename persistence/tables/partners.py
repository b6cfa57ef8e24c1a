"""Partners: their API keys and the payments that they have reported."""

from sqlalchemy import BigInteger, Column, LargeBinary, Text

from domain.partners import PartnerApiKey
from persistence.tables.base import (
    belongs_to_organization,
    index,
    instant,
    record_table,
    refers_to,
    tenant_table,
    unique,
)

# A key is 256 random bits, so a fast hash is enough.
partner_api_keys = record_table(
    "partner_api_keys",
    PartnerApiKey,
    "partner_api_key_id",
    Column("key_hash", LargeBinary, nullable=False),
    unique("key_hash"),
    belongs_to_organization(),
)

# Claims the id of a payment forever, reported by a partner or tracked by a client; its results are in the event.
partner_payments = tenant_table(
    "partner_payments",
    "partner_payment_id",
    Column("payment_id", Text, nullable=False),
    # Null for a payment that was tracked as an event.
    Column("partner_api_key_id", BigInteger),
    Column("member_id", BigInteger, nullable=False),
    instant("created_at", nullable=False),
    unique("payment_id"),
    index("ix_partner_payments_member_id", "member_id"),
    refers_to("partner_api_keys", "partner_api_key_id"),
    refers_to("members", "member_id"),
)
