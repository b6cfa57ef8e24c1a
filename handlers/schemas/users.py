"""Users and permission groups on the wire (administration "Records": User)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from domain.users import Membership, User
from handlers.messages.base import Instant, Plain, Shape, WireSchema
from handlers.services.users.change_many_users import FAILED, Outcome


class _Common(WireSchema):
    name = Plain()
    nickname = Plain()
    profile_picture_url = Plain()
    is_system_admin = Plain()
    pending_provisioning = Plain()
    active = Plain()
    email = Plain()
    user_name = Plain()
    auth_client_id = Plain()


class _NewUser(_Common):
    is_admin = Plain()
    roles = Plain()
    permission_group_keys = Plain(load_default=list)
    password_is_temporary = Plain()
    password = Plain()
    send_invite = Plain(load_default=False)
    email_is_verified = Plain(load_default=False)
    is_external = Plain(load_default=False)


class _Change(_Common):
    organizations = Plain()
    permission_group_keys = Plain()


class _Permissions(WireSchema):
    is_admin = Plain()
    roles = Plain()
    permission_group_keys = Plain()


class _Many(_Permissions):
    emails = Plain()


class _Added(_Many):
    send_invite = Plain(load_default=True)


class _Password(WireSchema):
    password = Plain()
    permanent = Plain()


class _Record(_Common):
    user_id = Plain()
    is_api_user = Plain()
    is_external = Plain()
    email_is_verified = Plain()
    password_is_temporary = Plain()
    created_at = Instant()
    updated_at = Instant()


class _Group(WireSchema):
    permission_group_key = Plain()
    name = Plain()
    description = Plain()
    is_admin = Plain(load_default=False)
    roles = Plain(load_default=list)


class _GroupRecord(_Group):
    organization_id = Plain()
    permission_group_id = Plain()
    created_at = Instant()
    updated_at = Instant()


NEW_USER = Shape(_NewUser, complete=True)
USER_CHANGE = Shape(_Change)
PERMISSIONS = Shape(_Permissions)
PASSWORD = Shape(_Password, complete=True)
USERS_TO_ADD = Shape(_Added, complete=True)
USERS_TO_REASSIGN = Shape(_Many, complete=True)
USERS_TO_REMOVE = Shape(_Many, complete=True)
NEW_GROUP = Shape(_Group, complete=True)
GROUP_CHANGE = Shape(_Group)
GROUP = Shape(_GroupRecord)
_USER = Shape(_Record)


@dataclass(frozen=True, slots=True)
class ShownUser:
    """A user with the memberships that the caller may see."""

    user: User
    memberships: Sequence[Membership]


def user_record(shown: ShownUser) -> dict[str, Any]:
    """The record of a user."""
    return {
        **_USER.dump(shown.user),
        "organizations": [_membership(membership) for membership in shown.memberships],
        "permissionGroupKeys": list(shown.user.membership.permission_group_keys),
    }


def _membership(membership: Membership) -> dict[str, Any]:
    merged = membership.grant
    return {
        "organizationId": membership.organization_id,
        "isAdmin": merged.is_admin,
        "roles": sorted(merged.roles),
        "inlineIsAdmin": membership.is_admin,
        "inlineRoles": list(membership.roles),
    }


def created_user(made: tuple[ShownUser, str | None]) -> dict[str, Any]:
    """The answer that shows a password, only this once."""
    shown, password = made
    return {"user": user_record(shown), "password": password}


def bulk_results(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The outcome of each address, and the number of each kind of outcome."""
    failed = sum(outcome.status == FAILED for outcome in outcomes)
    return {
        "results": [
            {"email": outcome.email, "status": outcome.status}
            | ({} if outcome.error is None else {"error": outcome.error.as_problem()})
            for outcome in outcomes
        ],
        "summary": {"total": len(outcomes), "succeeded": len(outcomes) - failed, "failed": failed},
    }
