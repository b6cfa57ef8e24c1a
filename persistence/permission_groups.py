"""Permission groups, and the permissions that they give to their users."""

from typing import Any

from sqlalchemy import ARRAY, Connection, Table, Text, delete, func, select

from domain.problems import NameTaken
from domain.users import PermissionGroup
from persistence.filters import is_same
from persistence.records import Records
from persistence.tables.organizations import permission_groups as table
from persistence.tables.organizations import user_permission_groups as links

PERMISSION_GROUPS = Records(
    table,
    PermissionGroup,
    conflicts={
        "uq_permission_groups_organization_id_permission_group_key": (
            NameTaken,
            "The organization already has a permission group {permission_group_key}.",
        )
    },
)


def count_users(db: Connection, group: PermissionGroup) -> int:
    """Count the users in the group, active or not."""
    count: int = db.execute(select(func.count()).select_from(links).where(*_is_of_group(links, group))).scalar_one()
    return count


def delete_group(db: Connection, group: PermissionGroup) -> None:
    """Delete a group that has no users."""
    db.execute(delete(table).where(*_is_of_group(table, group)))


def _is_of_group(of_table: Table, group: PermissionGroup) -> tuple[Any, ...]:
    """The conditions that rows of a table belong to a group."""
    return (
        of_table.c.organization_id == group.organization_id,
        of_table.c.permission_group_id == group.permission_group_id,
    )


def _select_from_groups(members: Table, organization_id: Any, *columns: Any) -> Any:
    """Select columns of the permission groups of the user in each row of `members`, a table of memberships.

    `organization_id` is None if the memberships are of several organizations.
    """
    organization_id = members.c.organization_id if organization_id is None else organization_id
    return (
        select(*columns)
        .select_from(links.join(table, is_same(table, links, "permission_group_id")))
        .where(links.c.organization_id == organization_id, links.c.user_id == members.c.user_id)
        .correlate(members)
    )


def groups_administer(members: Table, organization_id: Any) -> Any:
    """The condition that the user of a membership is in a group of administrators, for a query on memberships."""
    return _select_from_groups(members, organization_id, links.c.user_id).where(table.c.is_admin).exists()


def roles_of_groups(members: Table, organization_id: Any) -> Any:
    """The roles of all groups of the user of a membership, for a query on memberships."""
    roles = _select_from_groups(members, organization_id, func.unnest(table.c.roles)).distinct()
    return func.array(roles.scalar_subquery(), type_=ARRAY(Text))


def keys_of_groups(members: Table, organization_id: Any) -> Any:
    """The ordered keys of the groups of the user of a membership, for a query on memberships."""
    keys = _select_from_groups(members, organization_id, table.c.permission_group_key).order_by(
        table.c.permission_group_key
    )
    return func.array(keys.scalar_subquery(), type_=ARRAY(Text))
