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
        return (*((ADMIN,) if self.is_admin or self.is_system_admin else ()), *sorted(self.roles))


def merged(grants: Iterable[Grant]) -> Grant:
    """The union of several grants; for each resource only the highest action is kept."""
    roles: set[str] = set()
    is_admin = is_system_admin = False
    for grant in grants:
        roles |= grant.roles
        is_admin |= grant.is_admin
        is_system_admin |= grant.is_system_admin
    return Grant(highest(roles), is_admin, is_system_admin)


def highest(roles: Iterable[str]) -> frozenset[str]:
    """The roles without those that another of them implies, such as `x:read` beside `x:write`."""
    given = frozenset(roles)
    return frozenset(role for role in given if not (role.endswith(":read") and _write(role) in given))


def limited(claimed: Grant, current: Grant) -> Grant:
    """The grant of a token limited to `current`, the present permissions of its user.

    The result never exceeds either of the two.
    """
    if not lacking(current, claimed):
        return claimed
    return Grant(
        roles=highest(_implied(claimed) & _implied(current)),
        is_admin=_administers(claimed) and _administers(current),
        is_system_admin=claimed.is_system_admin and current.is_system_admin,
    )


def lacking(held: Grant, required: Grant) -> list[str]:
    """Permissions in `required` that `held` lacks, as named in requests; empty if `held` covers all of `required`."""
    missing = []
    if required.is_system_admin and not held.is_system_admin:
        missing.append("isSystemAdmin")
    if required.is_admin and not _administers(held):
        missing.append("isAdmin")
    return missing + sorted(required.roles - _implied(held))


def added(before: Grant, after: Grant) -> Grant:
    """Permissions that a change from one grant to another adds."""
    return Grant(
        roles=after.roles - _implied(before),
        is_admin=after.is_admin and not before.is_admin,
        is_system_admin=after.is_system_admin and not before.is_system_admin,
    )


def _administers(grant: Grant) -> bool:
    return grant.is_admin or grant.is_system_admin


def _implied(grant: Grant) -> frozenset[str]:
    """Every role that a grant includes or implies."""
    if _administers(grant):
        return ROLES
    return grant.roles | {_read(role) for role in grant.roles}


def _read(role: str) -> str:
    return role.replace(":write", ":read")


def _write(role: str) -> str:
    return role.replace(":read", ":write")


def narrowed(held: Grant, requested_scopes: Iterable[str]) -> Grant | None:
    """The part of a grant that the requested scopes name; None if they ask for more than is held.

    `x:write` includes `x:read`, and an administrator holds every role. A request for less than `admin` gets only what
    it names.
    """
    scopes = frozenset(requested_scopes)
    allowed = _implied(held)
    if held.is_admin or held.is_system_admin:
        allowed |= {ADMIN}
    if not scopes <= allowed:
        return None
    stays_admin = ADMIN in scopes
    return Grant(
        roles=scopes - {ADMIN},
        is_admin=held.is_admin and stays_admin,
        is_system_admin=held.is_system_admin and stays_admin,
    )
