"""What a caller may be allowed to do: roles, and the scopes by which a token is asked for and limited."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

RESOURCES = (
    "badges",
    "benefits",
    "campaigns",
    "coupons",
    "ledgers",
    "members",
    "orders",
    "partnerships",
    "tiers",
    "users",
)
ROLES = frozenset(f"{resource}:{action}" for resource in RESOURCES for action in ("read", "write"))
# What a system that integrates the API needs: everything of that interface but changes of what campaigns go by.
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
# No role: stands for an administrator of the organization, who may do everything in it.
ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token allows: roles, or everything in the organization, or everything in every organization."""

    roles: frozenset[str]
    is_admin: bool = False
    is_system_admin: bool = False

    @property
    def scopes(self) -> tuple[str, ...]:
        """The grant as scopes, in a certain order."""
        return (*((ADMIN,) if self.is_admin or self.is_system_admin else ()), *sorted(self.roles))


def merged(grants: Iterable[Grant]) -> Grant:
    """All that several grants give together; of the actions on one resource the highest stands alone."""
    roles: set[str] = set()
    is_admin = is_system_admin = False
    for grant in grants:
        roles |= grant.roles
        is_admin |= grant.is_admin
        is_system_admin |= grant.is_system_admin
    return Grant(highest(roles), is_admin, is_system_admin)


def highest(roles: Iterable[str]) -> frozenset[str]:
    """The roles without those that another of them implies: `x:read` beside `x:write`."""
    given = frozenset(roles)
    return frozenset(role for role in given if not (role.endswith(":read") and _write(role) in given))


def limited(claimed: Grant, current: Grant) -> Grant:
    """What is left of the grant of a token, where its user has `current` by now: never more than either."""
    if not lacking(current, claimed):
        return claimed
    return Grant(
        roles=highest(_implied(claimed) & _implied(current)),
        is_admin=_administers(claimed) and _administers(current),
        is_system_admin=claimed.is_system_admin and current.is_system_admin,
    )


def lacking(held: Grant, wanted: Grant) -> list[str]:
    """What `held` lacks of `wanted`, in the names of requests; empty means that the one may give the other."""
    found = []
    if wanted.is_system_admin and not held.is_system_admin:
        found.append("isSystemAdmin")
    if wanted.is_admin and not _administers(held):
        found.append("isAdmin")
    return found + sorted(wanted.roles - _implied(held))


def added(before: Grant, after: Grant) -> Grant:
    """What a change from one grant to another gives beyond what was there."""
    return Grant(
        roles=after.roles - _implied(before),
        is_admin=after.is_admin and not before.is_admin,
        is_system_admin=after.is_system_admin and not before.is_system_admin,
    )


def _administers(grant: Grant) -> bool:
    return grant.is_admin or grant.is_system_admin


def _implied(grant: Grant) -> frozenset[str]:
    """Every role that a grant amounts to."""
    if _administers(grant):
        return ROLES
    return grant.roles | {_read(role) for role in grant.roles}


def _read(role: str) -> str:
    return role.replace(":write", ":read")


def _write(role: str) -> str:
    return role.replace(":read", ":write")


def narrowed(held: Grant, wanted: Iterable[str]) -> Grant | None:
    """The part of a grant that is asked for by scopes; None if they ask for more than is held.

    `x:write` holds `x:read`, and an administrator holds every role. Who asks for less than `admin` gets no more.
    """
    scopes = frozenset(wanted)
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
