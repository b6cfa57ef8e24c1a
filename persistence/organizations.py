"""Organizations, the permissions of users in them, and the keys that sign tokens."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import ARRAY, BigInteger, Connection, bindparam, cast, delete, func, insert, select, update

from domain.access import Grant, merge_grants
from domain.organizations import Organization, OrganizationDetails
from persistence.connections import fetch_rows
from persistence.filters import ORGANIZATION, is_same
from persistence.permission_groups import groups_administer, roles_of_groups
from persistence.prepared_statements import Prepared
from persistence.records import Addresses
from persistence.rows import add, change, columns_of, compile_statement
from persistence.tables.organizations import organization_users, organizations, signing_keys, users

Record = TypeVar("Record")

_COLUMNS = columns_of(organizations, Organization)

_FIND = compile_statement(select(*_COLUMNS).where(organizations.c.organization_id == bindparam("organization_id")))

_WITH_ROWS = """
SELECT o.organization_id FROM organizations o
CROSS JOIN LATERAL (
    SELECT 1 FROM {table} w WHERE w.organization_id = o.organization_id AND {condition} LIMIT 1
) x
ORDER BY random()
"""

_RIGHTS = (
    func.coalesce(users.c.active, False),
    func.coalesce(users.c.active & organization_users.c.active, False),
    # System administrators need no membership, but an inactive one ends their rights in the organization.
    func.coalesce(users.c.is_system_admin & func.coalesce(organization_users.c.active, True), False),
    func.coalesce(organization_users.c.is_admin, False) | groups_administer(organization_users, ORGANIZATION),
    organization_users.c.roles,
    roles_of_groups(organization_users, ORGANIZATION),
    func.coalesce(users.c.token_generation, 0),
    users.c.user_id,
)
_WITH_RIGHTS = compile_statement(
    select(*_COLUMNS, *_RIGHTS)
    .select_from(
        organizations.outerjoin(
            users, users.c.user_id == func.any(cast(bindparam("user_ids"), ARRAY(BigInteger)))
        ).outerjoin(
            organization_users,
            is_same(organization_users, organizations) & (organization_users.c.user_id == users.c.user_id),
        )
    )
    .where(organizations.c.organization_id == bindparam("organization_id"))
)


@dataclass(frozen=True, slots=True)
class CurrentRights:
    """A user's current permissions in an organization: inline permissions and those of groups, merged.

    `is_active` is true if the user is active, `is_member` if the user's membership of the organization is, too.
    """

    is_active: bool
    is_member: bool
    grant: Grant
    token_generation: int


_UNKNOWN_USER = CurrentRights(is_active=False, is_member=False, grant=Grant(frozenset()), token_generation=0)


def find(db: Connection, organization_id: int) -> Organization | None:
    """The organization with this id; None if it does not exist."""
    rows = fetch_rows(db, _FIND, {"organization_id": organization_id})
    return Organization(*rows[0]) if rows else None


def find_details(db: Connection, organization_id: int) -> OrganizationDetails:
    """The organization with this id, which must exist, with all of its settings."""
    columns = columns_of(organizations, OrganizationDetails)
    return OrganizationDetails(
        *db.execute(select(*columns).where(organizations.c.organization_id == organization_id)).one()
    )


def find_time(db: Connection, organization_id: int) -> datetime:
    """The time of an organization: the time of its test clock, or the real time if it has none."""
    organization, now = find(db, organization_id), datetime.now(UTC)
    return now if organization is None else organization.time_at(now)


def find_with_rights(db: Connection, organization_id: int, user_id: int) -> tuple[Organization, CurrentRights] | None:
    """The organization and the current permissions of a user, in one query; None without such an organization.

    An unknown user has no permissions.
    """
    rows = fetch_rows(db, _WITH_RIGHTS, {"organization_id": organization_id, "user_ids": [user_id]})
    if not rows:
        return None
    organization, rights = _organization_and_rights(rows, [user_id])
    return organization, rights[user_id]


def find_with_records(
    db: Connection, organization_id: int, user_ids: Collection[int], addresses: Addresses[Record] | None = None
) -> tuple[Organization, dict[int, CurrentRights], Mapping[Any, Record] | None] | None:
    """The organization, the current permissions of users, and the records with these addresses, in one query.

    None if the organization does not exist. Unknown users have no permissions. The records are None if they were not
    read, because `addresses` is None or there are several users: the query would return every record for each user.
    """
    statement = _WITH_RIGHTS if user_ids else _FIND
    parameters: dict[str, Any] = {"organization_id": organization_id, "user_ids": list(user_ids)}
    if addresses is None or len(user_ids) > 1:
        rows = fetch_rows(db, statement, parameters)
        return (*_organization_and_rights(rows, user_ids), None) if rows else None
    parameters |= {"addresses": [*addresses.values], "now": addresses.now}
    rows = fetch_rows(db, _with_records(statement, addresses.lookup.statement), parameters)
    if not rows:
        return None
    width = len(_COLUMNS) + (len(_RIGHTS) if user_ids else 0)
    organization, rights = _organization_and_rights(rows[:1], user_ids)
    rows_of_records = [row[width:] for row in rows if row[width] is not None]
    return organization, rights, addresses.lookup.records(rows_of_records, addresses.now, organization.timezone)


@cache
def _with_records(statement: str, record_statement: str) -> Prepared:
    """The statement that combines each row of a statement with each record, or with NULLs if there are no records.

    Parameters that have the same name in both statements have the same value.
    """
    return Prepared(f"SELECT * FROM ({statement}) AS x LEFT JOIN ({record_statement}) AS y ON true")


def _organization_and_rights(
    rows: Sequence[tuple[Any, ...]], user_ids: Collection[int]
) -> tuple[Organization, dict[int, CurrentRights]]:
    """The organization and the rights of users, from the rows of _WITH_RIGHTS, or of _FIND without users."""
    width = len(_COLUMNS)
    organization = Organization(*rows[0][:width])
    rights = dict.fromkeys(user_ids, _UNKNOWN_USER)
    rows_with_rights = rows if user_ids else ()
    for row in rows_with_rights:
        is_active, is_member, is_system_admin, is_admin, roles, group_roles, generation, user_id = row[
            width : width + len(_RIGHTS)
        ]
        grant = Grant(frozenset(), is_system_admin=is_system_admin and is_active)
        if is_member:
            grant = merge_grants([grant, Grant(frozenset(roles), is_admin), Grant(frozenset(group_roles))])
        if user_id is not None:
            rights[user_id] = CurrentRights(is_active, is_member, grant, generation)
    return organization, rights


def add_organization(db: Connection, **values: Any) -> Organization:
    """Insert an organization."""
    return add(db, organizations, Organization, values)


def change_organization(db: Connection, organization_id: int, **values: Any) -> OrganizationDetails:
    """Store new values of an organization."""
    return change(db, organizations, OrganizationDetails, {"organization_id": organization_id}, values)


def increment_configuration_version(db: Connection, organization_id: int) -> None:
    """Make every process reload the configuration of the organization before its next event.

    The configuration that the transaction itself loads from now on may be rolled back, so it is kept only for this
    transaction, in `changing_configurations`.
    """
    if changing_configurations(db) is None:
        db.execution_options(changing_configurations={})
    db.execute(
        update(organizations)
        .where(organizations.c.organization_id == organization_id)
        .values(configuration_version=organizations.c.configuration_version + 1)
    )


def changing_configurations(db: Connection) -> dict[int, Any] | None:
    """Return the configurations that this transaction has loaded, by organization id.

    None if the transaction has not changed a configuration, so that it can use the configurations of the process.
    """
    configurations: dict[int, Any] | None = db.get_execution_options().get("changing_configurations")
    return configurations


def add_user(db: Connection, organization_id: int, membership: Mapping[str, Any], **values: Any) -> int:
    """Insert a user with a membership of the organization; returns the user's id."""
    now: datetime = values["created_at"]
    user_id: int = db.execute(insert(users).values(**values).returning(users.c.user_id)).scalar_one()
    db.execute(
        insert(organization_users).values(
            organization_id=organization_id, user_id=user_id, created_at=now, updated_at=now, **membership
        )
    )
    return user_id


def find_oldest(db: Connection, name: str | None = None) -> int | None:
    """The id of the oldest organization, or of the oldest one with this name; None if there is none."""
    statement = select(organizations.c.organization_id).order_by(organizations.c.organization_id).limit(1)
    return db.execute(statement if name is None else statement.where(organizations.c.name == name)).scalar()


def find_all(db: Connection) -> list[Organization]:
    """All organizations, the oldest first."""
    rows = db.execute(select(*_COLUMNS).order_by(organizations.c.organization_id))
    return [Organization(*row) for row in rows]


def find_ids_with_rows(db: Connection, table: str, condition: str = "true") -> list[int]:
    """The ids of the organizations that have a row of `table` for which `condition` is true.

    `condition` is SQL that calls the row `w`. Each organization costs one probe of an index. Workers use it to find the
    organizations with work to do; the order is random, so that no organization with much work is always first.
    """
    rows = fetch_rows(db, _WITH_ROWS.format(table=table, condition=condition), ())
    return [organization_id for (organization_id,) in rows]


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key pair for tokens; the newest one signs them, all verify them."""

    key_id: str
    algorithm: str
    private_key: str
    created_at: datetime


def find_signing_keys(db: Connection) -> list[SigningKey]:
    """All signing keys, the newest first."""
    rows = db.execute(select(*columns_of(signing_keys, SigningKey)).order_by(signing_keys.c.created_at.desc())).all()
    return [SigningKey(*row) for row in rows]


def add_signing_key(db: Connection, key: SigningKey) -> None:
    """Store a new signing key."""
    db.execute(
        insert(signing_keys).values(
            key_id=key.key_id, algorithm=key.algorithm, private_key=key.private_key, created_at=key.created_at
        )
    )


def date_signing_key(db: Connection, key_id: str, date: datetime) -> None:
    """Change the date of a signing key; the key with the latest date signs tokens."""
    db.execute(update(signing_keys).where(signing_keys.c.key_id == key_id).values(created_at=date))


def remove_signing_keys(db: Connection, key_ids: Collection[str]) -> list[str]:
    """Remove signing keys by id; return the ids of the removed ones."""
    statement = delete(signing_keys).where(signing_keys.c.key_id.in_(key_ids)).returning(signing_keys.c.key_id)
    return list(db.execute(statement).scalars())


def lock_signing_keys(db: Connection) -> None:
    """Wait until no other transaction changes the signing keys; none can change them until this one ends."""
    db.execute(select(func.pg_advisory_xact_lock(func.hashtext("loyalty signing keys"))))
