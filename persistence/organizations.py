"""Organizations, their users and the keys that sign tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, literal, select, update

from domain.organizations import Organization
from persistence.rows import add, change, columns_of
from persistence.tables.organizations import organization_users, organizations, signing_keys, users

_COLUMNS = columns_of(organizations, Organization)

_WITH_MEMBERSHIP = select(
    *_COLUMNS,
    select(literal(1))
    .where(
        organization_users.c.organization_id == organizations.c.organization_id,
        organization_users.c.user_id == bindparam("user_id"),
        organization_users.c.active,
        users.c.user_id == organization_users.c.user_id,
        users.c.active,
    )
    .exists()
    .label("is_member"),
).where(organizations.c.organization_id == bindparam("organization_id"))


def find(db: Connection, organization_id: int) -> Organization | None:
    """The organization with this id."""
    return find_with_membership(db, organization_id, 0)[0]


def find_with_membership(db: Connection, organization_id: int, user_id: int) -> tuple[Organization | None, bool]:
    """The organization and whether the user is active and an active member of it, in one query."""
    row = db.execute(_WITH_MEMBERSHIP, {"organization_id": organization_id, "user_id": user_id}).one_or_none()
    return (None, False) if row is None else (Organization(*row[:-1]), row[-1])


def user_is_active(db: Connection, user_id: int) -> bool:
    """True if the user exists and is active, whatever the organization (for system administrators)."""
    return bool(db.execute(select(users.c.active).where(users.c.user_id == user_id)).scalar())


def add_organization(db: Connection, **values: Any) -> Organization:
    """Insert an organization."""
    return add(db, organizations, Organization, values)


def change_organization(db: Connection, organization_id: int, **values: Any) -> Organization:
    """Change an organization's own columns."""
    return change(db, organizations, Organization, {"organization_id": organization_id}, values)


def raise_configuration_version(db: Connection, organization_id: int) -> None:
    """Make every process load what evaluation depends on anew before its next event."""
    db.execute(
        update(organizations)
        .where(organizations.c.organization_id == organization_id)
        .values(configuration_version=organizations.c.configuration_version + 1)
    )


@dataclass(frozen=True, slots=True)
class ApiUser:
    """A user as the token operation needs it, with the membership that the token will speak of."""

    user_id: int
    auth_client_id: str
    password_hash: str
    organization_id: int
    is_admin: bool
    is_system_admin: bool
    roles: tuple[str, ...]


def find_api_user(db: Connection, auth_client_id: str) -> ApiUser | None:
    """The active API user with this client id, with its first active membership."""
    row = db.execute(
        select(
            users.c.user_id,
            users.c.auth_client_id,
            users.c.password_hash,
            organization_users.c.organization_id,
            organization_users.c.is_admin,
            users.c.is_system_admin,
            organization_users.c.roles,
        )
        .join(organization_users, organization_users.c.user_id == users.c.user_id)
        .where(
            users.c.auth_client_id == auth_client_id,
            users.c.active,
            users.c.is_api_user,
            organization_users.c.active,
        )
        .order_by(organization_users.c.organization_id)
        .limit(1)
    ).one_or_none()
    return None if row is None else ApiUser(*row)


def add_user(db: Connection, organization_id: int, membership: Mapping[str, Any], **values: Any) -> int:
    """Insert a user with a membership of the organization and answer the user's id."""
    now: datetime = values["created_at"]
    user_id = db.execute(insert(users).values(**values).returning(users.c.user_id)).scalar_one()
    db.execute(
        insert(organization_users).values(
            organization_id=organization_id, user_id=user_id, created_at=now, updated_at=now, **membership
        )
    )
    return user_id


def change_password_hash(db: Connection, user_id: int, password_hash: str) -> None:
    """Store the password of a user under another hash."""
    db.execute(update(users).where(users.c.user_id == user_id).values(password_hash=password_hash))


def find_oldest(db: Connection, name: str | None = None) -> int | None:
    """The id of the oldest organization, of this name if one is given."""
    statement = select(organizations.c.organization_id).order_by(organizations.c.organization_id).limit(1)
    return db.execute(statement if name is None else statement.where(organizations.c.name == name)).scalar()


def find_ids(db: Connection) -> list[int]:
    """The ids of all organizations."""
    return list(db.execute(select(organizations.c.organization_id).order_by(organizations.c.organization_id)).scalars())


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key pair that signs tokens; the newest signs, all verify."""

    key_id: str
    algorithm: str
    private_key: str
    created_at: datetime


def signing_keys_newest_first(db: Connection) -> list[SigningKey]:
    """Every signing key."""
    rows = db.execute(select(*columns_of(signing_keys, SigningKey)).order_by(signing_keys.c.created_at.desc())).all()
    return [SigningKey(*row) for row in rows]


def add_signing_key(db: Connection, key: SigningKey) -> None:
    """Store a new signing key."""
    db.execute(
        insert(signing_keys).values(
            key_id=key.key_id, algorithm=key.algorithm, private_key=key.private_key, created_at=key.created_at
        )
    )


def wait_for_signing_key_turn(db: Connection) -> None:
    """Let one transaction at a time decide that a first signing key is needed."""
    db.execute(select(func.pg_advisory_xact_lock(func.hashtext("loyalty signing keys"))))
