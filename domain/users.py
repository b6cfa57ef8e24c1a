"""Users of organizations, what they may do there, and the groups that give it to them (administration "Users")."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from domain.access import Grant, lacking, merged
from domain.problems import Conflict, Forbidden, NotFound

# How long a temporary password, and so an invitation, can be used.
TEMPORARY_PASSWORD_LIFETIME = timedelta(days=7)


LONGEST_EMAIL = 254
_EMAIL = re.compile(r"[!-?A-~]+@[!-?A-~]+")


@dataclass(frozen=True, slots=True)
class PermissionGroup:
    """Permissions under a key that the client chooses, for all users of the organization who are in the group."""

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
        """What the group gives."""
        return Grant(frozenset(self.roles), self.is_admin)


@dataclass(frozen=True, slots=True)
class Membership:
    """A user's membership of an organization: what it gives inline, and what its permission groups give."""

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
        """What is given to this user alone."""
        return Grant(frozenset(self.roles), self.is_admin)

    @property
    def grant(self) -> Grant:
        """What the user may do in the organization: inline and by groups, the highest action of each resource."""
        return merged([self.inline, Grant(frozenset(self.group_roles), self.group_is_admin)])


@dataclass(frozen=True, slots=True)
class User:
    """A person or program. `active` and `membership` are those of one organization; users may have several."""

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
        """What the user may do in the organization."""
        held = self.membership.grant
        return Grant(held.roles, held.is_admin, self.is_system_admin)

    @property
    def administers(self) -> bool:
        """True for one who can act as an administrator of the organization now."""
        return self.active and not self.pending_provisioning and self.membership.grant.is_admin


def is_email(text: str) -> bool:
    """True for a text that has the form of an address, in ASCII, so that small and capital letters compare safely."""
    return len(text) <= LONGEST_EMAIL and _EMAIL.fullmatch(text) is not None


class UnknownUser(NotFound):
    """A request names a user whom the organization does not have."""

    slug = "unknown-user"
    title = "The user does not exist"


class UnknownPermissionGroup(NotFound):
    """A request names a permission group that the organization does not have."""

    slug = "unknown-permission-group"
    title = "The permission group does not exist"


class UserExists(Conflict):
    """The `authClientId` is taken, or a user of the organization has the address."""

    slug = "user-exists"
    title = "The user exists already"


class LastAdministrator(Conflict):
    """An organization keeps at least one active administrator."""

    slug = "last-administrator"
    title = "The organization would be left without an administrator"


class ExternalUser(Conflict):
    """The password of a user of the external issuer is not kept here."""

    slug = "external-user"
    title = "The user signs in with the external issuer"


class PermissionNotHeld(Forbidden):
    """Nobody gives what they do not have, nor takes over whoever has more."""

    slug = "permission-not-held"
    title = "The caller does not have this permission"


class SharedUser(Forbidden):
    """Only system administrators change what a user has in common with other organizations."""

    slug = "user-shared"
    title = "The user belongs to other organizations, too"


class PasswordChangeRequired(Forbidden):
    """A temporary password gets no token; only at the token operation."""

    slug = "password-change-required"
    title = "The temporary password has to be changed"


def require_held(held: Grant, wanted: Grant, what: str) -> None:
    """Refuse, in words that name `what`, if the caller lacks any of what is wanted; raises PermissionNotHeld."""
    missing = lacking(held, wanted)
    if missing:
        raise PermissionNotHeld(f"{what}: the caller does not have {', '.join(missing)}.")


def require_rank(held: Grant, target: Grant) -> None:
    """Refuse to let anybody but administrators change an administrator, and others a system administrator."""
    rank = Grant(frozenset(), target.is_admin, target.is_system_admin)
    require_held(held, rank, "The user has more permissions than the caller")


def granted_by(groups: Sequence[PermissionGroup], beyond: Collection[str] = ()) -> Grant:
    """What the groups give together, but for those whose keys are in `beyond`."""
    return merged(group.grant for group in groups if group.permission_group_key not in beyond)
