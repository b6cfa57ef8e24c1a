"""Users of the organization and their permission groups (administration "Users")."""

from collections.abc import Mapping
from typing import Any

from domain.access import Grant, added_permissions, without_implied_roles
from domain.problems import FieldFault, Forbidden, InvalidRequest, NotFound
from domain.users import PermissionGroup, PermissionGroupInUse, User, require_permissions
from handlers.audit_trail import Audited
from handlers.call import Call, RequestContext
from handlers.messages.base import Changes, values_of, wrapped
from handlers.messages.lists import listed
from handlers.operation import declare_list, operation
from handlers.schemas.users import (
    GROUP,
    GroupProperties,
    PasswordReset,
    ShownUser,
    UsersToAdd,
    bulk_results,
    created_user,
    user_record,
)
from handlers.services import passwords
from handlers.services.users import change_many_users, change_users
from handlers.services.users.administer_users import administering
from handlers.services.users.change_many_users import UserOutcome, UsersToChange
from handlers.services.users.change_users import NewUser, PermissionsUpdate, UserUpdate
from persistence import users
from persistence.paging import Paged
from persistence.permission_groups import PERMISSION_GROUPS, count_users, delete_group

_AUDITED_GROUP = Audited("permission-group", "permission_group_id", GROUP)


@operation("listUsers", response=listed(user_record))
def list_users(call: Call, query: Mapping[str, Any]) -> Paged[ShownUser]:
    """A page of the users who match all filters."""
    # The filter selects those users of this organization who also belong to that one.
    organization_id = query.get("organizationId")
    is_other = organization_id not in (None, call.organization.organization_id)
    if is_other and not _may_see_all_organizations(call):
        raise Forbidden("Only a system administrator can list the users of another organization.")
    page = users.find_page(call.db, call.organization.organization_id, query)
    return page.with_results(_with_memberships(call, *page.results))


def _hash_password(context: RequestContext) -> str | None:
    """Hash the password of a request; None if it has none. Refuses a weak password of a new user."""
    body: NewUser | PasswordReset = context.body
    if body.password is None:
        return None
    if isinstance(body, NewUser):
        _refuse_weak_password(body.password, body)
    return passwords.hash_password(body.password)


def _refuse_weak_password(password: str, user: passwords.HasKnownTexts) -> None:
    fault = passwords.password_fault(password, user)
    if fault is not None:
        raise InvalidRequest([FieldFault(f"password {fault}", pointer="/password")])


@operation("createUser", response=created_user, before_transaction=_hash_password, audit="user")
def create_user(call: Call, body: NewUser, hook_result: str | None) -> tuple[ShownUser, str | None]:
    """Create a user; only this response shows the password.

    `hook_result` is the hash of the password in the request, None if it has none.
    """
    user, password = change_users.create_user(call, body, hook_result)
    return _with_membership(call, user), password


@operation("getUser", response=wrapped("user", user_record))
def get_user(call: Call, user: User) -> ShownUser:
    """One user, active or not."""
    return _with_membership(call, user)


@operation("updateUser", response=wrapped("user", user_record), audit="user")
def update_user(call: Call, user: User, body: Changes[UserUpdate]) -> ShownUser:
    """Change a user. The address and the ids cannot be changed, and no membership is removed."""
    return _with_membership(call, change_users.update_user(call, user, body))


@operation("removeUser", audit="user")
def remove_user(call: Call, user: User) -> None:
    """End a user's membership of this organization."""
    change_users.remove_user(call, user)


@operation("bulkAddUsers", response=bulk_results, audit="user")
def bulk_add_users(call: Call, body: UsersToAdd) -> list[UserOutcome]:
    """Create users for many addresses."""
    return change_many_users.add_many(call, body, body.send_invite)


@operation("bulkReassignUsers", response=bulk_results, audit="user")
def bulk_reassign_users(call: Call, body: UsersToChange) -> list[UserOutcome]:
    """Change the permissions of the users with these addresses."""
    return change_many_users.reassign_many(call, body)


@operation("bulkRemoveUsers", response=bulk_results, audit="user")
def bulk_remove_users(call: Call, body: UsersToChange) -> list[UserOutcome]:
    """End the memberships of the users with these addresses."""
    return change_many_users.remove_many(call, body)


@operation("setUserPermissions", response=wrapped("user", user_record), audit="user")
def set_user_permissions(call: Call, user: User, body: PermissionsUpdate) -> ShownUser:
    """Change the permissions of a user, inline and by groups."""
    return _with_membership(call, change_users.set_permissions(call, user, body))


@operation("resetUserPassword", before_transaction=_hash_password, audit="user")
def reset_user_password(call: Call, user: User, body: PasswordReset, hook_result: str) -> None:
    """Replace the password of a user; a person's new password is temporary unless `permanent` is true.

    `hook_result` is the hash of the new password.
    """
    _refuse_weak_password(body.password, user)
    change_users.reset_password(call, user, body.permanent, hook_result)


declare_list("listPermissionGroups", PERMISSION_GROUPS.find_page, listed(GROUP))


@operation("createPermissionGroup", response=wrapped("permissionGroup", GROUP), audit=_AUDITED_GROUP)
def create_permission_group(call: Call, body: GroupProperties) -> PermissionGroup:
    """Create a group; it can only give permissions that the caller has."""
    values = values_of(body) | {"roles": sorted(without_implied_roles(body.roles))}
    with administering(call) as caller_grant:
        require_permissions(
            caller_grant, Grant(frozenset(values["roles"]), body.is_admin), "The group cannot give this"
        )
        return PERMISSION_GROUPS.add(call.db, call.organization.organization_id, values, call.real_now)


@operation(
    "updatePermissionGroup",
    response=wrapped("permissionGroup", GROUP),
    audit=_AUDITED_GROUP.changing(is_found_by_handler=True),
)
def update_permission_group(
    call: Call, permission_group: PermissionGroup, body: Changes[GroupProperties]
) -> PermissionGroup:
    """Change a group; its users have the new permissions from their next request on."""
    with administering(call) as caller_grant:
        before = _current_group(call, permission_group)
        call.audit.keep_before(before)
        properties = body.of(before)
        values = values_of(properties) | {"roles": sorted(without_implied_roles(properties.roles))}
        # A caller can only add permissions that the caller has; other permissions of the group may stay.
        after = Grant(frozenset(values["roles"]), properties.is_admin)
        require_permissions(caller_grant, added_permissions(before.grant, after), "The group cannot give this")
        _require_rank_of_group(caller_grant, before)
        return PERMISSION_GROUPS.store(call.db, before, values, call.real_now)


@operation("deletePermissionGroup", audit="permission-group")
def delete_permission_group(call: Call, permission_group: PermissionGroup) -> None:
    """Delete a group that no user is in."""
    with administering(call) as caller_grant:
        group = _current_group(call, permission_group)
        _require_rank_of_group(caller_grant, group)
        count = count_users(call.db, group)
        if count:
            users_text = "1 user" if count == 1 else f"{count} users"
            raise PermissionGroupInUse(f"The permission group {group.permission_group_key} has {users_text}.")
        delete_group(call.db, group)
        call.audit.add("permission-group", group.permission_group_id, before=GROUP(group), after={})


def _current_group(call: Call, group: PermissionGroup) -> PermissionGroup:
    """The record of a group, read again within `administering`; raises NotFound if the group was deleted meanwhile."""
    current_group = PERMISSION_GROUPS.find(call.db, group.organization_id, group.permission_group_id)
    if current_group is None:
        raise NotFound(f"The permission group {group.permission_group_key} was deleted.")
    return current_group


def _require_rank_of_group(caller_grant: Grant, group: PermissionGroup) -> None:
    """Refuse a change of a group of administrators by a caller who is not an administrator."""
    if group.is_admin:
        require_permissions(caller_grant, Grant(frozenset(), is_admin=True), "The group is for administrators")


def _may_see_all_organizations(call: Call) -> bool:
    return call.caller is not None and call.caller.is_system_admin


def _with_membership(call: Call, user: User) -> ShownUser:
    """The user as `_with_memberships` returns it."""
    [shown_user] = _with_memberships(call, user)
    return shown_user


def _with_memberships(call: Call, *found_users: User) -> list[ShownUser]:
    """The users with their membership of this organization; for system administrators, with all their memberships."""
    if not _may_see_all_organizations(call):
        return [ShownUser(user, [user.membership]) for user in found_users]
    memberships = users.find_memberships(call.db, [user.user_id for user in found_users])
    return [ShownUser(user, memberships[user.user_id]) for user in found_users]
