"""Users and permission groups on the wire (administration "Records": User)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from domain.users import Membership, PermissionGroup, User
from handlers.messages.base import Shape
from handlers.services.users.change_many_users import FAILED, UserOutcome, UsersToChange


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersToAdd(UsersToChange):
    """Users to create, by their email addresses."""

    send_invite: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordReset:
    """The new password of a user, and whether it is permanent."""

    password: str
    permanent: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProperties:
    """The writable fields of a permission group."""

    permission_group_key: str
    name: str
    description: str | None = None
    is_admin: bool = False
    roles: Sequence[str] = ()


GROUP = Shape(PermissionGroup)
_USER = Shape(User, without=("membership",))


@dataclass(frozen=True, slots=True)
class ShownUser:
    """A user with the memberships that the caller may see."""

    user: User
    memberships: Sequence[Membership]


def user_record(shown_user: ShownUser) -> dict[str, Any]:
    """The record of a user."""
    return {
        **_USER.dump(shown_user.user),
        "organizations": [_membership(membership) for membership in shown_user.memberships],
        "permissionGroupKeys": list(shown_user.user.membership.permission_group_keys),
    }


def _membership(membership: Membership) -> dict[str, Any]:
    """The record of a membership, with all permissions and with the inline permissions only."""
    grant = membership.grant
    return {
        "organizationId": membership.organization_id,
        "isAdmin": grant.is_admin,
        "roles": sorted(grant.roles),
        "inlineIsAdmin": membership.is_admin,
        "inlineRoles": list(membership.roles),
    }


def created_user(user_with_password: tuple[ShownUser, str | None]) -> dict[str, Any]:
    """The response with a new user and the user's password, which no other response shows."""
    shown_user, password = user_with_password
    return {"user": user_record(shown_user), "password": password}


def bulk_results(outcomes: Sequence[UserOutcome]) -> dict[str, Any]:
    """The outcome of each address, and the number of each kind of outcome."""
    failure_count = sum(outcome.status == FAILED for outcome in outcomes)
    return {
        "results": [
            {"email": outcome.email, "status": outcome.status}
            | ({} if outcome.error is None else {"error": outcome.error.as_problem()})
            for outcome in outcomes
        ],
        "summary": {"total": len(outcomes), "succeeded": len(outcomes) - failure_count, "failed": failure_count},
    }
