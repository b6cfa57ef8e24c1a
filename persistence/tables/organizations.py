"""Organizations (the tenants), their users, portals, partners and programs, and the keys that sign tokens."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from domain.organizations import OrganizationDetails
from domain.partners import PartnerApiKey
from domain.portals import Portal
from domain.programs import LoyaltyProgram, LoyaltyTier
from domain.users import PermissionGroup, User
from persistence.tables.base import (
    belongs_to_organization,
    created_and_updated,
    execute_on,
    foreign_key,
    index,
    instant,
    integers,
    metadata,
    record_table,
    tenant_table,
    texts,
    unique,
)

organizations = record_table(
    "organizations",
    OrganizationDetails,
    "organization_id",
    CheckConstraint("environment IN ('live', 'test')", "environment"),
    CheckConstraint("late_event_tiers IN ('event-date', 'evaluation')", "late_event_tiers"),
    CheckConstraint("clock_now IS NULL OR environment = 'test'", "clock"),
    defaults={
        "subscription_level": "'not-initialized'",
        "default_locale": "'en'",
        "timezone": "'UTC'",
        "environment": "'live'",
        # Organizations that are older than this column continue to use the current tiers.
        "late_event_tiers": "'evaluation'",
        "configuration_version": "1",
        "awaits_events": "false",
    },
)

_ENVIRONMENT_STAYS = """
CREATE OR REPLACE FUNCTION organization_environment_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', TABLE = 'organizations',
        CONSTRAINT = 'organization_environment_stays', MESSAGE = 'the environment of an organization is never changed';
END $$
"""

_ENVIRONMENT_STAYS_TRIGGER = """
CREATE TRIGGER organization_environment_stays BEFORE UPDATE ON organizations
FOR EACH ROW WHEN (old.environment <> new.environment) EXECUTE FUNCTION organization_environment_stays()
"""

execute_on("after_create", organizations, _ENVIRONMENT_STAYS, _ENVIRONMENT_STAYS_TRIGGER)

# A person or an application may belong to several organizations, so users belong to none.
users = record_table(
    "users",
    User,
    "user_id",
    Column("password_hash", Text),
    instant("password_expires_at"),
    # Tokens contain it; a higher one invalidates all tokens that the user has.
    Column("token_generation", BigInteger, nullable=False, server_default=text("1")),
    UniqueConstraint("auth_client_id"),
    defaults={
        **dict.fromkeys(("email_is_verified", "is_system_admin", "is_api_user", "is_external"), "false"),
        **dict.fromkeys(("pending_provisioning", "password_is_temporary"), "false"),
        "active": "true",
    },
    without=("membership",),
)

organization_users = tenant_table(
    "organization_users",
    ("user_id",),
    Column("user_id", BigInteger, nullable=False),
    Column("is_admin", Boolean, nullable=False, server_default=text("false")),
    texts("roles"),
    Column("active", Boolean, nullable=False, server_default=text("true")),
    *created_and_updated(),
    ForeignKeyConstraint(["organization_id"], ["organizations.organization_id"]),
    ForeignKeyConstraint(["user_id"], ["users.user_id"]),
    Index(None, "user_id"),
)

permission_groups = record_table(
    "permission_groups",
    PermissionGroup,
    "permission_group_id",
    unique("permission_group_key"),
    belongs_to_organization(),
)

user_permission_groups = tenant_table(
    "user_permission_groups",
    ("user_id", "permission_group_id"),
    *integers("user_id", "permission_group_id"),
    foreign_key("organization_users", "user_id"),
    foreign_key("permission_groups", "permission_group_id"),
    index(None, "permission_group_id"),
)

signing_keys = Table(
    "signing_keys",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("algorithm", Text, nullable=False),
    Column("private_key", Text, nullable=False),
    instant("created_at", nullable=False),
)

portals = record_table(
    "portals",
    Portal,
    "portal_id",
    unique("public_id"),
    belongs_to_organization(),
    foreign_key("loyalty_programs", "loyalty_program_id"),
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

# The ids of payments that a partner reported or a client tracked, each used once. The event has the results.
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
    foreign_key("partner_api_keys", "partner_api_key_id"),
    foreign_key("members", "member_id"),
)

loyalty_programs = record_table(
    "loyalty_programs",
    LoyaltyProgram,
    "loyalty_program_id",
    unique("loyalty_program_key"),
    belongs_to_organization(),
    foreign_key("ledgers", "ledger_id"),
    types={"tier_policy": JSONB},
)

loyalty_tiers = record_table(
    "loyalty_tiers",
    LoyaltyTier,
    "loyalty_tier_id",
    unique("loyalty_tier_key"),
    index(None, "loyalty_program_id"),
    foreign_key("loyalty_programs", "loyalty_program_id"),
    types={"tier_order": Integer},
)
