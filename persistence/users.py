"""Users, their memberships of organizations, and their passwords."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, select, update
from sqlalchemy.exc import DBAPIError

from domain.users import Membership, User, UserExists
from persistence.connections import defer
from persistence.filters import ORGANIZATION, conditions_of, contains, equals, has_row, is_false_unless_asked, is_true
from persistence.paging import Page, Paged, paged_columns, sorting_of
from persistence.permission_groups import groups_administer, keys_of_groups, roles_of_groups
from persistence.rows import add_all, as_json, fields_of
from persistence.tables.organizations import organization_users as memberships
from persistence.tables.organizations import organizations, user_permission_groups, users
from persistence.transactions import violated_constraint

_ACTIVE = and_(users.c.active, memberships.c.active)
ORDER_COLUMNS = {
    "userId": users.c.user_id,
    "name": users.c.name,
    "nickname": users.c.nickname,
    "userName": users.c.user_name,
    "email": users.c.email,
    "authClientId": users.c.auth_client_id,
    "active": _ACTIVE,
    "createdAt": users.c.created_at,
    "updatedAt": users.c.updated_at,
}

_USER_COLUMNS = tuple(
    _ACTIVE if name == "active" else users.c[name] for name in fields_of(User) if name != "membership"
)


def _membership_columns(organization_id: Any) -> tuple[Any, ...]:
    """The columns of memberships of an organization; of memberships of several organizations if it is None."""
    return (
        memberships.c.organization_id,
        memberships.c.user_id,
        memberships.c.active,
        memberships.c.is_admin,
        memberships.c.roles,
        keys_of_groups(memberships, organization_id),
        groups_administer(memberships, organization_id),
        roles_of_groups(memberships, organization_id),
    )


_COLUMNS = (*_USER_COLUMNS, *_membership_columns(ORGANIZATION))
_JOINED = users.join(memberships, memberships.c.user_id == users.c.user_id)

# A second row of the same membership would fail.
_SAVE_MEMBERSHIPS = """
INSERT INTO organization_users (organization_id, user_id, is_admin, roles, active, created_at, updated_at)
SELECT organization_id, user_id, is_admin, ARRAY(SELECT json_array_elements_text(roles)), active, at, at
FROM json_to_recordset(%s::json)
    AS x(organization_id bigint, user_id bigint, is_admin boolean, roles json, active boolean, at timestamptz)
ON CONFLICT (organization_id, user_id) DO UPDATE
SET is_admin = excluded.is_admin, roles = excluded.roles, active = excluded.active, updated_at = excluded.updated_at
"""


def _belongs_to(organization_id: int) -> Any:
    """The condition that a user has a membership of an organization."""
    other = memberships.alias()
    return users.c.user_id.in_(select(other.c.user_id).where(other.c.organization_id == organization_id))


_FILTERS = {
    "email": lambda email: func.lower(users.c.email) == email.lower(),
    "userName": equals(users.c.user_name),
    "authClientId": equals(users.c.auth_client_id),
    "active": is_true(_ACTIVE),
    "organizationId": _belongs_to,
    "includeAPIUsers": is_false_unless_asked(users.c.is_api_user),
    "includeCognitoUsers": is_false_unless_asked(users.c.is_external),
    "search": contains(users.c.name, users.c.nickname, users.c.user_name, users.c.email, users.c.auth_client_id),
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user's credentials, with the membership for the token."""

    user_id: int
    auth_client_id: str
    name: str
    nickname: str | None
    email: str | None
    user_name: str | None
    password_hash: str | None
    password_is_temporary: bool
    password_expires_at: datetime | None
    is_api_user: bool
    pending_provisioning: bool
    token_generation: int
    organization_id: int


def _user(row: Any) -> User:
    """The user of a row with the columns of the user, followed by the columns of the membership."""
    values: list[Any] = [*row[: len(_USER_COLUMNS)], _membership(row[len(_USER_COLUMNS) :])]
    return User(*values)


def _membership(row: Any) -> Membership:
    values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in row]
    return Membership(*values)


def _find(db: Connection, organization_id: int, *conditions: Any) -> list[User]:
    """The organization's users who meet conditions, the oldest first."""
    statement = select(*_COLUMNS).select_from(_JOINED).where(memberships.c.organization_id == ORGANIZATION, *conditions)
    rows = db.execute(statement.order_by(users.c.user_id), {"organization_id": organization_id})
    return [_user(row) for row in rows]


def find(db: Connection, organization_id: int, user_id: int) -> User | None:
    """The user with this id who belongs to the organization, active or not; None if there is no such user."""
    matching = _find(db, organization_id, users.c.user_id == user_id)
    return matching[0] if matching else None


def find_api_users(db: Connection, organization_id: int) -> list[User]:
    """The organization's API users, active or not, the oldest first."""
    return _find(db, organization_id, users.c.is_api_user)


def find_by_emails(db: Connection, organization_id: int, emails: Collection[str]) -> dict[str, User]:
    """The organization's users with these addresses, by lower-case address; for each address the oldest user."""
    lowered = [email.lower() for email in emails]
    matching = _find(db, organization_id, func.lower(users.c.email).in_(lowered))
    # Reversed, so that the oldest user, who has the lowest id, replaces the others.
    return {user.email.lower(): user for user in reversed(matching) if user.email is not None}


def find_page(db: Connection, organization_id: int, query: Mapping[str, Any]) -> Paged[User]:
    """A page of the organization's users who match all filters."""
    conditions = [memberships.c.organization_id == organization_id, *conditions_of(_FILTERS, query)]
    page = Page.of(query)
    sorting = sorting_of(page.order, ORDER_COLUMNS, users.c.user_id)
    parameters = {"organization_id": organization_id}
    return paged_columns(
        db, lambda *row: _user(row), _COLUMNS, _JOINED, conditions, page, sorting, parameters=parameters
    )


def find_memberships(db: Connection, user_ids: Collection[int]) -> dict[int, list[Membership]]:
    """All memberships of each user, by user id, ordered by organization; only for system administrators."""
    statement = select(*_membership_columns(None)).where(memberships.c.user_id.in_(list(user_ids)))
    by_user: dict[int, list[Membership]] = {user_id: [] for user_id in user_ids}
    for row in db.execute(statement.order_by(memberships.c.organization_id)):
        membership = _membership(row)
        by_user[membership.user_id].append(membership)
    return by_user


def find_organization_with_email(db: Connection, organization_ids: Collection[int], email: str) -> int | None:
    """The first of these organizations that has a user with the address, None if none has; for system administrators.

    Organizations are in the order of their ids.
    """
    statement = select(memberships.c.organization_id).select_from(_JOINED)
    has_address = func.lower(users.c.email) == email.lower()
    statement = statement.where(memberships.c.organization_id.in_(list(organization_ids)), has_address)
    return db.execute(statement.order_by(memberships.c.organization_id).limit(1)).scalar()


def belongs_elsewhere(db: Connection, organization_id: int, user_id: int) -> bool:
    """True if the user has a membership of another organization."""
    return has_row(db, memberships.c.user_id == user_id, memberships.c.organization_id != organization_id)


def lock_organizations(db: Connection, organization_ids: Collection[int]) -> set[int]:
    """Lock the organizations against other changes of their users; returns the ids of the existing organizations."""
    existing_ids: set[int] = set()
    for organization_id in sorted(organization_ids):
        condition = organizations.c.organization_id == organization_id
        statement = select(organizations.c.organization_id).where(condition).with_for_update(key_share=True)
        existing_ids.update(db.execute(statement).scalars())
    return existing_ids


def lock_users(db: Connection, user_ids: Collection[int]) -> None:
    """Lock these users against other changes of them, in whatever organization."""
    statement = select(users.c.user_id).where(users.c.user_id.in_(list(user_ids))).order_by(users.c.user_id)
    db.execute(statement.with_for_update(key_share=True)).all()


def find_administrators(db: Connection, organization_ids: Collection[int]) -> set[tuple[int, int]]:
    """The users who can act as administrators of these organizations now, as pairs of organization id and user id.

    A user is an administrator by a permission of their own or by a group.
    """
    only_id = next(iter(organization_ids)) if len(organization_ids) == 1 else None
    statement = (
        select(memberships.c.organization_id, memberships.c.user_id)
        .select_from(_JOINED)
        .where(
            memberships.c.organization_id.in_(list(organization_ids)),
            _ACTIVE,
            ~users.c.pending_provisioning,
            memberships.c.is_admin | groups_administer(memberships, only_id),
        )
    )
    return {(organization_id, user_id) for organization_id, user_id in db.execute(statement)}


def add_user(db: Connection, **values: Any) -> int:
    """Insert a user without a membership and return the id; raises UserExists if the `authClientId` is taken.

    If the user who has the `authClientId` belongs to no organization any more, that user loses it and becomes inactive:
    the new owner is another person.
    """
    auth_client_id = values["auth_client_id"]
    is_owner = users.c.auth_client_id == auth_client_id, ~users.c.is_system_admin
    for owner_id in db.execute(select(users.c.user_id).where(*is_owner)).scalars().all():
        if not has_row(db, memberships.c.user_id == owner_id):
            values_of_owner = {"auth_client_id": f"{auth_client_id} #{owner_id}", "active": False}
            db.execute(update(users).where(users.c.user_id == owner_id, *is_owner).values(values_of_owner))
    try:
        user_id: int = db.execute(insert(users).values(**values).returning(users.c.user_id)).scalar_one()
    except DBAPIError as error:
        if not violated_constraint(error, ("uq_users_auth_client_id",)):
            raise
        raise UserExists(f"The authClientId {auth_client_id} is taken.") from error
    return user_id


def add_users(db: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert any number of users, whose ids were reserved before, without memberships."""
    add_all(db, users, rows)


def save_memberships(db: Connection, changed_memberships: Sequence[Membership], now: datetime) -> None:
    """Insert memberships, or replace their inline permissions; `set_groups` stores their groups.

    Each membership may occur only once. The statement is deferred.
    """
    if changed_memberships:
        rows = [
            {
                "organization_id": membership.organization_id,
                "user_id": membership.user_id,
                "is_admin": membership.is_admin,
                "roles": membership.roles,
                "active": membership.active,
                "at": now,
            }
            for membership in changed_memberships
        ]
        defer(db, _SAVE_MEMBERSHIPS, (as_json(rows),))


def set_groups(db: Connection, organization_id: int, user_ids: Collection[int], group_ids: Collection[int]) -> None:
    """Put the users into these groups of the organization, and remove them from its other groups."""
    table, ids, groups = user_permission_groups, list(user_ids), list(group_ids)
    db.execute(
        delete(table).where(
            table.c.organization_id == organization_id,
            table.c.user_id.in_(ids),
            table.c.permission_group_id.not_in(groups),
        )
    )
    if ids and groups:
        defer(
            db,
            "INSERT INTO user_permission_groups (organization_id, user_id, permission_group_id)"
            " SELECT %s, u, g FROM unnest(%s::bigint[]) u, unnest(%s::bigint[]) g ON CONFLICT DO NOTHING",
            (organization_id, ids, groups),
        )


def remove_memberships(db: Connection, organization_id: int, user_ids: Collection[int]) -> None:
    """Remove the users from the organization; their other memberships stay."""
    for table in (user_permission_groups, memberships):
        db.execute(delete(table).where(table.c.organization_id == organization_id, table.c.user_id.in_(list(user_ids))))


def change_user(db: Connection, user_id: int, **values: Any) -> None:
    """Change the fields of a user that all organizations share."""
    db.execute(update(users).where(users.c.user_id == user_id).values(**values))


def set_password(
    db: Connection, user_id: int, password_hash: str, *, temporary_until: datetime | None, now: datetime
) -> None:
    """Store a new password of a user, which makes all tokens of the user invalid.

    With `temporary_until`, the password is temporary and expires then.
    """
    change_user(
        db,
        user_id,
        password_hash=password_hash,
        password_is_temporary=temporary_until is not None,
        password_expires_at=temporary_until,
        token_generation=users.c.token_generation + 1,
        updated_at=now,
    )


def find_credentials(
    db: Connection, auth_client_id: str, organization_id: int | None, *, lock: bool = False
) -> Credentials | None:
    """The credentials of the user with this client id, with an active membership of the organization.

    If `organization_id` is None, the membership is that of the user's first organization. None if there is no such user
    or membership. With `lock`, the user is locked.
    """
    columns = [
        memberships.c.organization_id if name == "organization_id" else users.c[name] for name in fields_of(Credentials)
    ]
    statement = select(*columns).select_from(_JOINED).where(users.c.auth_client_id == auth_client_id, _ACTIVE)
    if organization_id is not None:
        statement = statement.where(memberships.c.organization_id == organization_id)
    statement = statement.order_by(memberships.c.organization_id).limit(1)
    if lock:
        statement = statement.with_for_update(of=users, key_share=True)
    row = db.execute(statement).one_or_none()
    return None if row is None else Credentials(*row)


def find_external_user(db: Connection, subject: str) -> int | None:
    """The id of the user with this subject of the external issuer, active or not; None if there is no such user."""
    statement = select(users.c.user_id).where(users.c.auth_client_id == subject, users.c.is_external)
    return db.execute(statement).scalar()


def find_first_organization(db: Connection, user_id: int) -> int | None:
    """The id of the first organization in which the user is active; None if there is none."""
    statement = select(memberships.c.organization_id).select_from(_JOINED)
    statement = statement.where(users.c.user_id == user_id, _ACTIVE).order_by(memberships.c.organization_id)
    return db.execute(statement.limit(1)).scalar()
