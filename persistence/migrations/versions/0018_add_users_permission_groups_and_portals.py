"""Add users' permission groups and portals

Follows: 0017
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "permission_groups",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("permission_group_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("permission_group_key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("is_admin", sa.Boolean(), nullable=False),
        sa.Column("roles", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name=op.f("fk_permission_groups_organization_id")
        ),
        sa.PrimaryKeyConstraint("organization_id", "permission_group_id", name=op.f("pk_permission_groups")),
        sa.UniqueConstraint(
            "organization_id",
            "permission_group_key",
            name=op.f("uq_permission_groups_organization_id_permission_group_key"),
        ),
    )
    op.create_table(
        "user_permission_groups",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("user_id", sa.BigInteger(), nullable=False),
        sa.Column("permission_group_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "permission_group_id"],
            ["permission_groups.organization_id", "permission_groups.permission_group_id"],
            name=op.f("fk_user_permission_groups_organization_id_permission_group_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "user_id"],
            ["organization_users.organization_id", "organization_users.user_id"],
            name=op.f("fk_user_permission_groups_organization_id_user_id"),
        ),
        sa.PrimaryKeyConstraint(
            "organization_id", "user_id", "permission_group_id", name=op.f("pk_user_permission_groups")
        ),
    )
    op.create_index(
        op.f("ix_user_permission_groups_organization_id_permission_group_id"),
        "user_permission_groups",
        ["organization_id", "permission_group_id"],
        unique=False,
    )
    op.create_table(
        "portals",
        sa.Column("organization_id", sa.BigInteger(), nullable=False),
        sa.Column("portal_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("public_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column(
            "custom_attributes",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column(
            "links",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column(
            "theme",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column(
            "forms",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column(
            "metadata",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("loyalty_program_id", sa.BigInteger(), nullable=True),
        sa.Column("auth_redirect_url", sa.Text(), nullable=True),
        sa.Column("auth_valid_scopes", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id", "loyalty_program_id"],
            ["loyalty_programs.organization_id", "loyalty_programs.loyalty_program_id"],
            name=op.f("fk_portals_organization_id_loyalty_program_id"),
        ),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.organization_id"], name=op.f("fk_portals_organization_id")
        ),
        sa.PrimaryKeyConstraint("organization_id", "portal_id", name=op.f("pk_portals")),
        sa.UniqueConstraint("organization_id", "public_id", name=op.f("uq_portals_organization_id_public_id")),
    )
    op.add_column(
        "users", sa.Column("password_is_temporary", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.add_column("users", sa.Column("password_expires_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("users", sa.Column("token_generation", sa.BigInteger(), server_default=sa.text("1"), nullable=False))
    op.add_column(
        "users", sa.Column("email_is_verified", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.add_column("users", sa.Column("is_external", sa.Boolean(), server_default=sa.text("false"), nullable=False))
    op.alter_column("users", "password_hash", existing_type=sa.TEXT(), nullable=True)


def downgrade() -> None:
    """Change it back; users without a password get one that nobody can have."""
    op.execute("UPDATE users SET password_hash = '' WHERE password_hash IS NULL")
    op.alter_column("users", "password_hash", existing_type=sa.TEXT(), nullable=False)
    op.drop_column("users", "is_external")
    op.drop_column("users", "email_is_verified")
    op.drop_column("users", "token_generation")
    op.drop_column("users", "password_expires_at")
    op.drop_column("users", "password_is_temporary")
    op.drop_table("portals")
    op.drop_index(
        op.f("ix_user_permission_groups_organization_id_permission_group_id"), table_name="user_permission_groups"
    )
    op.drop_table("user_permission_groups")
    op.drop_table("permission_groups")
