"""Users of organizations, their permissions, and permission groups (administration "Users")."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from domain.access import Grant, merge_grants, missing_permissions
from domain.problems import Conflict, Forbidden, NotFound

# How long a temporary password, and with it an invitation, is valid.
TEMPORARY_PASSWORD_LIFETIME = timedelta(days=7)


MAX_EMAIL_LENGTH = 254
_EMAIL = re.compile(r"[!-?A-~]+@[!-?A-~]+")


@dataclass(frozen=True, slots=True)
class PermissionGroup:
    """Permissions with a key chosen by the client, for all users of the organization in the group."""

    organization_id: int
    permission_group_id: int
    permission_group_key: str
    name: str
    description: str | None
    is_admin: bool
    roles: tuple[str, ...]
    created_at: datetime
    updated_at: datetime

    @property
    def grant(self) -> Grant:
        """The permissions of the group."""
        return Grant(frozenset(self.roles), self.is_admin)


@dataclass(frozen=True, slots=True)
class Membership:
    """A user's membership of an organization: its inline permissions, and the permissions of its groups."""

    organization_id: int
    user_id: int
    active: bool
    is_admin: bool
    roles: tuple[str, ...]
    permission_group_keys: tuple[str, ...]
    group_is_admin: bool
    group_roles: tuple[str, ...]

    @property
    def inline(self) -> Grant:
        """The inline permissions of this user."""
        return Grant(frozenset(self.roles), self.is_admin)

    @property
    def grant(self) -> Grant:
        """The user's permissions in the organization: inline and by groups, the highest action of each resource."""
        return merge_grants([self.inline, Grant(frozenset(self.group_roles), self.group_is_admin)])


@dataclass(frozen=True, slots=True)
class User:
    """A person or an application; `active` and `membership` are for one of the user's organizations."""

    user_id: int
    name: str
    nickname: str | None
    profile_picture_url: str | None
    user_name: str | None
    email: str | None
    email_is_verified: bool
    auth_client_id: str
    is_system_admin: bool
    is_api_user: bool
    is_external: bool
    pending_provisioning: bool
    password_is_temporary: bool
    active: bool
    created_at: datetime
    updated_at: datetime
    membership: Membership

    @property
    def grant(self) -> Grant:
        """The user's permissions in the organization."""
        grant = self.membership.grant
        return Grant(grant.roles, grant.is_admin, self.is_system_admin)

    @property
    def administers(self) -> bool:
        """True if the user can act as an administrator of the organization now."""
        return self.active and not self.pending_provisioning and self.membership.grant.is_admin


def is_email(text: str) -> bool:
    """True for a text in the form of an ASCII email address, so that it can be compared safely regardless of case."""
    return len(text) <= MAX_EMAIL_LENGTH and _EMAIL.fullmatch(text) is not None


class UnknownUser(NotFound, title="The user does not exist"):
    """The organization does not have the user that a request names."""


class UnknownPermissionGroup(NotFound, title="The permission group does not exist"):
    """The organization does not have the permission group that a request names."""


class UserExists(Conflict, title="The user already exists"):
    """The `authClientId` is taken, or another user of the organization has the email address."""


class LastAdministrator(Conflict, title="The organization would be left without an administrator"):
    """An organization keeps at least one active administrator."""


class PermissionGroupInUse(Conflict, title="The permission group has users"):
    """A permission group is deleted only when it has no users."""


class ExternalUser(Conflict, title="The user signs in with the external issuer"):
    """The password of a user of the external issuer is not stored here."""


class PermissionNotHeld(Forbidden, title="The caller does not have this permission"):
    """Callers can only grant permissions that they have, and only change users who have no more permissions."""


class SharedUser(Forbidden, slug="user-shared", title="The user belongs to other organizations, too"):
    """Only system administrators can change fields that a user shares with other organizations."""


class PasswordChangeRequired(Forbidden, title="The temporary password has to be changed"):
    """A temporary password gets no token; raised by the token operation only."""


def require_permissions(grant: Grant, required: Grant, what: str) -> None:
    """Raise PermissionNotHeld if `grant` lacks a required permission; its text begins with `what`."""
    missing_names = missing_permissions(grant, required)
    if missing_names:
        raise PermissionNotHeld(f"{what}: the caller does not have {', '.join(missing_names)}.")


def require_rank(grant: Grant, target: Grant) -> None:
    """Refuse a change of an administrator by a caller who is not an administrator.

    Only system administrators change system administrators.
    """
    rank = Grant(frozenset(), target.is_admin, target.is_system_admin)
    require_permissions(grant, rank, "The user has more permissions than the caller")


def grant_of_groups(groups: Sequence[PermissionGroup], excluded_keys: Collection[str] = ()) -> Grant:
    """The union of the permissions of all groups, except the groups with `excluded_keys`."""
    return merge_grants(group.grant for group in groups if group.permission_group_key not in excluded_keys)
