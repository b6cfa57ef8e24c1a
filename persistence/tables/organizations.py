"""Organizations (the tenants), their users and the keys that sign tokens."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Identity,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from persistence.tables.base import (
    belongs_to_organization,
    created_and_updated,
    document,
    execute_on,
    instant,
    key,
    metadata,
    refers_to,
    tenant_table,
    texts,
)

organizations = Table(
    "organizations",
    metadata,
    Column("organization_id", BigInteger, Identity(always=False), primary_key=True),
    key("organization_key"),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("picture_url", Text),
    Column("default_loyalty_program_id", BigInteger),
    Column("default_ledger_id", BigInteger),
    Column("subscription_level", Text, nullable=False, server_default="not-initialized"),
    Column("payment_processor_customer_id", Text),
    instant("subscription_expiration_date"),
    Column("default_locale", Text, nullable=False, server_default="en"),
    texts("locales"),
    Column("timezone", Text, nullable=False, server_default="UTC"),
    # Decided at the creation: only records of test organizations can be removed as a whole.
    Column("environment", Text, nullable=False, server_default="live"),
    document("custom_attributes"),
    Column("configuration_version", BigInteger, nullable=False, server_default=text("1")),
    *created_and_updated(),
    CheckConstraint("environment IN ('live', 'test')", "environment"),
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

for _guard in (_ENVIRONMENT_STAYS, _ENVIRONMENT_STAYS_TRIGGER):
    execute_on("after_create", organizations, _guard)

# A person or program may belong to several organizations, so users stand outside of them.
users = Table(
    "users",
    metadata,
    Column("user_id", BigInteger, Identity(always=False), primary_key=True),
    Column("name", Text, nullable=False),
    Column("nickname", Text),
    Column("profile_picture_url", Text),
    Column("user_name", Text),
    Column("email", Text),
    Column("auth_client_id", Text, nullable=False),
    Column("password_hash", Text),
    Column("password_is_temporary", Boolean, nullable=False, server_default=text("false")),
    instant("password_expires_at"),
    # Tokens carry it; raising it ends all tokens that the user has.
    Column("token_generation", BigInteger, nullable=False, server_default=text("1")),
    Column("email_is_verified", Boolean, nullable=False, server_default=text("false")),
    Column("active", Boolean, nullable=False, server_default=text("true")),
    Column("is_system_admin", Boolean, nullable=False, server_default=text("false")),
    Column("is_api_user", Boolean, nullable=False, server_default=text("false")),
    Column("is_external", Boolean, nullable=False, server_default=text("false")),
    Column("pending_provisioning", Boolean, nullable=False, server_default=text("false")),
    *created_and_updated(),
    UniqueConstraint("auth_client_id"),
)

organization_users = Table(
    "organization_users",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("user_id", BigInteger, nullable=False),
    Column("is_admin", Boolean, nullable=False, server_default=text("false")),
    texts("roles"),
    Column("active", Boolean, nullable=False, server_default=text("true")),
    *created_and_updated(),
    PrimaryKeyConstraint("organization_id", "user_id"),
    ForeignKeyConstraint(["organization_id"], ["organizations.organization_id"]),
    ForeignKeyConstraint(["user_id"], ["users.user_id"]),
    Index(None, "user_id"),
)

permission_groups = tenant_table(
    "permission_groups",
    "permission_group_id",
    Column("permission_group_key", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("is_admin", Boolean, nullable=False),
    texts("roles"),
    *created_and_updated(),
    UniqueConstraint("organization_id", "permission_group_key"),
    belongs_to_organization(),
)

user_permission_groups = Table(
    "user_permission_groups",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("user_id", BigInteger, nullable=False),
    Column("permission_group_id", BigInteger, nullable=False),
    PrimaryKeyConstraint("organization_id", "user_id", "permission_group_id"),
    refers_to("organization_users", "user_id"),
    refers_to("permission_groups", "permission_group_id"),
    Index(None, "organization_id", "permission_group_id"),
)

signing_keys = Table(
    "signing_keys",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("algorithm", Text, nullable=False),
    Column("private_key", Text, nullable=False),
    instant("created_at", nullable=False),
)
