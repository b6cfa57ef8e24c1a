"""Partners: their API keys and the payments that they have reported."""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, Text, UniqueConstraint

from persistence.tables.base import belongs_to_organization, created_and_updated, instant, refers_to, tenant_table

# A key is 256 random bits, so a fast hash is enough.
partner_api_keys = tenant_table(
    "partner_api_keys",
    "partner_api_key_id",
    Column("partner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("key_hash", LargeBinary, nullable=False),
    # The end of the key, by which people tell keys apart.
    Column("key_hint", Text, nullable=False),
    instant("last_used_at"),
    instant("revoked_at"),
    *created_and_updated(),
    UniqueConstraint("organization_id", "key_hash"),
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
    UniqueConstraint("organization_id", "payment_id"),
    Index("ix_partner_payments_member_id", "organization_id", "member_id"),
    refers_to("partner_api_keys", "partner_api_key_id"),
    refers_to("members", "member_id"),
)
