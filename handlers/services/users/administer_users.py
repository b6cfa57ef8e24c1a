"""Rules of every change of users: one change at a time, by a caller with the permissions; an administrator remains."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from domain.access import Grant, added_permissions, merge_grants
from domain.problems import Forbidden, NotFound, Unauthorized
from domain.users import (
    LastAdministrator,
    Membership,
    PermissionGroup,
    PermissionNotHeld,
    SharedUser,
    UnknownPermissionGroup,
    User,
    grant_of_groups,
    require_permissions,
)
from handlers.call import Call
from handlers.messages.base import Shape
from handlers.services.organizations.caller_rights import caller_with_current_rights
from persistence import organizations, users
from persistence.permission_groups import PERMISSION_GROUPS

ROLE = "users:write"


@contextmanager
def administering(call: Call, organization_ids: Collection[int] = ()) -> Iterator[Grant]:
    """Keep other calls from changing users of the call's organization, and of `organization_ids`, until the commit.

    Yields the current permissions of the caller, which no other transaction can change meanwhile. Raises
    LastAdministrator at the end of the block if an organization that had an administrator has none any more.
    """
    locked_ids = {call.organization.organization_id, *organization_ids}
    for unknown_id in sorted(locked_ids - users.lock_organizations(call.db, locked_ids)):
        raise NotFound(f"There is no organization {unknown_id}.")
    caller_grant = _current_grant(call)
    had_administrator = {organization_id for organization_id, _ in users.find_administrators(call.db, locked_ids)}
    yield caller_grant
    has_administrator = {organization_id for organization_id, _ in users.find_administrators(call.db, locked_ids)}
    for organization_id in sorted(had_administrator - has_administrator):
        raise LastAdministrator(f"The organization {organization_id} would be left without an active administrator.")


def _current_grant(call: Call) -> Grant:
    """The current permissions of the caller; raises Unauthorized, NotFound or Forbidden."""
    caller = call.caller
    if caller is None:
        raise Unauthorized("This operation needs an access token.")
    if caller.user_id is None:
        return caller.grant
    # Another call may have removed permissions while this one waited for the lock.
    organization_and_rights = organizations.find_with_rights(call.db, call.organization.organization_id, caller.user_id)
    if organization_and_rights is None:
        raise NotFound(f"The user no longer belongs to organization {call.organization.organization_id}.")
    _, rights = organization_and_rights
    limited_caller = caller_with_current_rights(caller, rights)
    if not limited_caller.holds(ROLE):
        raise Forbidden(f"The user of this access token no longer has the permission {ROLE}.")
    return limited_caller.grant


def audit_change(call: Call, before: User | None, after: User | None) -> None:
    """Add a change of a user to the audit log; `before` is None for a new user, `after` for a removed one."""
    user = after or before
    assert user is not None
    call.audit.add("user", user.user_id, before=_audit_values(before), after=_audit_values(after))


# The fields of a user, and of the permissions in the organization, that the audit log contains.
_USER_FIELDS = Shape(
    User,
    without=("user_id", "email_is_verified", "password_is_temporary", "created_at", "updated_at", "membership"),
)
_PERMISSION_FIELDS = Shape(Membership, only=("is_admin", "roles", "permission_group_keys"))


def _audit_values(user: User | None) -> dict[str, Any]:
    return {} if user is None else {**_USER_FIELDS(user), **_PERMISSION_FIELDS(user.membership)}


def lock_user(call: Call, user: User) -> User:
    """Lock a user; return the current record. Raises NotFound for a removed user."""
    users.lock_users(call.db, [user.user_id])
    current_user = users.find(call.db, call.organization.organization_id, user.user_id)
    if current_user is None:
        raise NotFound(f"The user {user.user_id} was removed.")
    return current_user


def find_groups(call: Call, keys: Collection[str]) -> list[PermissionGroup]:
    """The groups with these keys; raises UnknownPermissionGroup for one that the organization does not have."""
    organization_id = call.organization.organization_id
    groups = PERMISSION_GROUPS.find_all(call.db, organization_id, permission_group_key=keys) if keys else []
    for unknown_key in sorted(set(keys) - {group.permission_group_key for group in groups}):
        raise UnknownPermissionGroup(f"The organization has no permission group {unknown_key}.")
    return groups


def require_grantable(
    caller_grant: Grant, membership: Membership | None, inline: Grant, groups: Collection[PermissionGroup] | None = None
) -> None:
    """Refuse permissions that a change adds, inline or by groups, unless the caller holds them.

    `membership` is the one before the change, None for a new one; `groups` is None if they do not change.
    """
    inline_before = Grant(frozenset()) if membership is None else membership.inline
    own_groups = () if membership is None else membership.permission_group_keys
    new_grant = merge_grants(
        [added_permissions(inline_before, inline), grant_of_groups(list(groups or ()), excluded_keys=own_groups)]
    )
    require_permissions(caller_grant, new_grant, "These permissions cannot be given")


def refuse_change_of_shared_user(call: Call, caller_grant: Grant, user: User, what: str) -> None:
    """Refuse a change that affects other organizations of the user, too, unless by a system administrator.

    `what` names the changed fields in the refusal.
    """
    if caller_grant.is_system_admin:
        return
    if user.is_system_admin:
        raise PermissionNotHeld(f"Only a system administrator can change {what} of a system administrator.")
    if users.belongs_elsewhere(call.db, call.organization.organization_id, user.user_id):
        raise SharedUser(
            f"The user belongs to other organizations, too: only a system administrator can change {what}."
        )
