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


def narrowed(held: Grant, wanted: Iterable[str]) -> Grant | None:
    """The part of a grant that is asked for by scopes; None if they ask for more than is held.

    `x:write` holds `x:read`, and an administrator holds every role. Who asks for less than `admin` gets no more.
    """
    scopes = frozenset(wanted)
    allowed = held.roles | {role.replace(":write", ":read") for role in held.roles}
    if held.is_admin or held.is_system_admin:
        allowed |= ROLES | {ADMIN}
    if not scopes <= allowed:
        return None
    stays_admin = ADMIN in scopes
    return Grant(
        roles=scopes - {ADMIN},
        is_admin=held.is_admin and stays_admin,
        is_system_admin=held.is_system_admin and stays_admin,
    )
