"""Permissions of callers: roles, and the scopes by which tokens are requested and limited."""

from collections.abc import Iterable
from dataclasses import dataclass

RESOURCES = (
    "badges",
    "benefits",
    "campaigns",
    "coupons",
    "exports",
    "imports",
    "ledgers",
    "members",
    "orders",
    "partnerships",
    "tiers",
    "users",
)
ROLES = frozenset(f"{resource}:{action}" for resource in RESOURCES for action in ("read", "write"))
# The roles that an integrating system needs: the whole integration interface, but no changes to configuration.
INTEGRATION_ROLES = (
    "badges:write",
    "benefits:write",
    "campaigns:read",
    "coupons:write",
    "ledgers:read",
    "members:write",
    "orders:write",
    "tiers:write",
)
# Not a role: marks an administrator of the organization, who may do everything in it.
ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Grant:
    """The permissions of a token: roles, or everything in the organization, or everything in every organization."""

    roles: frozenset[str]
    is_admin: bool = False
    is_system_admin: bool = False

    @property
    def scopes(self) -> tuple[str, ...]:
        """The grant as scopes, in a fixed order."""
        admin_scopes = (ADMIN,) if _administers(self) else ()
        return (*admin_scopes, *sorted(self.roles))


def merge_grants(grants: Iterable[Grant]) -> Grant:
    """The union of several grants; for each resource only the highest action is kept."""
    roles: set[str] = set()
    is_admin = is_system_admin = False
    for grant in grants:
        roles |= grant.roles
        is_admin |= grant.is_admin
        is_system_admin |= grant.is_system_admin
    return Grant(without_implied_roles(roles), is_admin, is_system_admin)


def without_implied_roles(roles: Iterable[str]) -> frozenset[str]:
    """The roles except roles that another role implies: `x:read` is left out if `x:write` is there."""
    all_roles = frozenset(roles)
    implied_roles = {_read_role_of(role) for role in all_roles if role.endswith(":write")}
    return all_roles - implied_roles


def limit_grant(token_grant: Grant, user_grant: Grant) -> Grant:
    """The permissions of a token, limited to the current permissions of its user.

    The result exceeds neither the grant of the token nor the grant of the user.
    """
    if not missing_permissions(user_grant, token_grant):
        return token_grant
    return Grant(
        roles=without_implied_roles(_all_roles_of(token_grant) & _all_roles_of(user_grant)),
        is_admin=_administers(token_grant) and _administers(user_grant),
        is_system_admin=token_grant.is_system_admin and user_grant.is_system_admin,
    )


def missing_permissions(grant: Grant, required: Grant) -> list[str]:
    """The permissions in `required` that `grant` lacks, each by its name in requests."""
    permissions = []
    if required.is_system_admin and not grant.is_system_admin:
        permissions.append("isSystemAdmin")
    if required.is_admin and not _administers(grant):
        permissions.append("isAdmin")
    return permissions + sorted(required.roles - _all_roles_of(grant))


def added_permissions(before: Grant, after: Grant) -> Grant:
    """The permissions that a change of a grant from `before` to `after` adds."""
    return Grant(
        roles=after.roles - _all_roles_of(before),
        is_admin=after.is_admin and not before.is_admin,
        is_system_admin=after.is_system_admin and not before.is_system_admin,
    )


def _administers(grant: Grant) -> bool:
    """True for an administrator of the organization, or of every organization."""
    return grant.is_admin or grant.is_system_admin


def _all_roles_of(grant: Grant) -> frozenset[str]:
    """Every role that a grant includes or implies."""
    if _administers(grant):
        return ROLES
    return grant.roles | {_read_role_of(role) for role in grant.roles}


def _read_role_of(role: str) -> str:
    """The role `x:read` for the role `x:write` or `x:read`."""
    return role.replace(":write", ":read")


def narrow_grant(grant: Grant, requested_scopes: Iterable[str]) -> Grant | None:
    """The part of a grant that the requested scopes name; None if they name more than the grant has.

    `x:write` includes `x:read`, and an administrator has every role. An administrator who does not request the scope
    `admin` gets only the named roles.
    """
    scopes = frozenset(requested_scopes)
    available_scopes = _all_roles_of(grant)
    if _administers(grant):
        available_scopes |= {ADMIN}
    if not scopes <= available_scopes:
        return None
    stays_admin = ADMIN in scopes
    return Grant(
        roles=scopes - {ADMIN},
        is_admin=grant.is_admin and stays_admin,
        is_system_admin=grant.is_system_admin and stays_admin,
    )
