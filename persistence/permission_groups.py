"""Permission groups, and the permissions that they give to their users."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ARRAY, Connection, Table, Text, func, select

from domain.problems import NameTaken
from domain.users import PermissionGroup
from persistence.paging import Page, Paged, paged
from persistence.rows import add, change, columns_of, record, records
from persistence.tables.organizations import permission_groups as table
from persistence.tables.organizations import user_permission_groups as links

ORDER_COLUMNS = {
    "permissionGroupId": table.c.permission_group_id,
    "permissionGroupKey": table.c.permission_group_key,
    "name": table.c.name,
    "isAdmin": table.c.is_admin,
    "createdAt": table.c.created_at,
    "updatedAt": table.c.updated_at,
}

_COLUMNS = columns_of(table, PermissionGroup)
_UNIQUE_KEY = "uq_permission_groups_organization_id_permission_group_key"


def _of(members: Table, *selected: Any) -> Any:
    """`selected` of the groups of a row of `members`, which has an organization and a user."""
    return (
        select(*selected)
        .select_from(
            links.join(
                table,
                (table.c.organization_id == links.c.organization_id)
                & (table.c.permission_group_id == links.c.permission_group_id),
            )
        )
        .where(links.c.organization_id == members.c.organization_id, links.c.user_id == members.c.user_id)
        .correlate(members)
    )


def groups_administer(members: Table) -> Any:
    """The condition that a group makes the user of a membership an administrator, for a query on memberships."""
    return _of(members, links.c.user_id).where(table.c.is_admin).exists()


def roles_of_groups(members: Table) -> Any:
    """The roles of all groups of a membership's user, for a query on memberships."""
    roles = _of(members, func.unnest(table.c.roles)).distinct()
    return func.array(roles.scalar_subquery(), type_=ARRAY(Text))


def keys_of_groups(members: Table) -> Any:
    """The keys of the groups of a membership's user, in order, for a query on memberships."""
    keys = _of(members, table.c.permission_group_key).order_by(table.c.permission_group_key)
    return func.array(keys.scalar_subquery(), type_=ARRAY(Text))


def find_by_key(db: Connection, organization_id: int, permission_group_key: str) -> PermissionGroup | None:
    """The group with this key."""
    existing = find_by_keys(db, organization_id, [permission_group_key])
    return existing[0] if existing else None


def find_by_keys(db: Connection, organization_id: int, keys: Collection[str]) -> list[PermissionGroup]:
    """The groups of the organization with one of these keys."""
    conditions = (table.c.organization_id == organization_id, table.c.permission_group_key.in_(list(keys)))
    return records(PermissionGroup, db.execute(select(*_COLUMNS).where(*conditions)))


def find_page(db: Connection, organization_id: int, page: Page) -> Paged[PermissionGroup]:
    """A page of groups."""
    conditions = [table.c.organization_id == organization_id]
    return paged(db, PermissionGroup, table, conditions, page, table.c.permission_group_id, ORDER_COLUMNS)


def lock(db: Connection, group: PermissionGroup) -> PermissionGroup:
    """The group as it is now, locked until the transaction ends."""
    conditions = (
        table.c.organization_id == group.organization_id,
        table.c.permission_group_id == group.permission_group_id,
    )
    locked = record(PermissionGroup, db.execute(select(*_COLUMNS).where(*conditions).with_for_update()).one())
    assert locked is not None
    return locked


def add_group(db: Connection, organization_id: int, **values: Any) -> PermissionGroup:
    """Insert a group; raises NameTaken where the key is taken."""
    taken = NameTaken(f"The organization already has a permission group {values['permission_group_key']}.")
    return add(
        db, table, PermissionGroup, {"organization_id": organization_id, **values}, refusals={_UNIQUE_KEY: taken}
    )


def change_group(db: Connection, group: PermissionGroup, /, **values: Any) -> PermissionGroup:
    """Change a group, and with it the permissions of all of its users."""
    address = {"organization_id": group.organization_id, "permission_group_id": group.permission_group_id}
    return change(db, table, PermissionGroup, address, values)
