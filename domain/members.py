"""Members of an organization's loyalty programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.problems import Conflict

# What stands in a profile as an object with members of its own, which an update changes one by one.
_PARTS_OF_PROFILE = ("govId", "address")

LONGEST_ID = 255
# Ids that differ by these alone look the same: they are refused at both ends, control characters everywhere.
_BLANK = r"\s\u200b-\u200f\u2060\ufeff"
_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
# It stands in paths: no slash, not only dots, and not the name of an operation beside it.
_ID = re.compile(rf"(?![{_BLANK}])(?!\.+\Z)[^/{_CONTROL}]+(?<![{_BLANK}])")
_OPERATIONS_BESIDE = frozenset({"exists"})


@dataclass(frozen=True, slots=True)
class Member:
    """A member; `wallet_id` holds the member's balances in the organization's default ledger.

    `profile` and `notifications` hold only what is known, by the names of the API; what is not known is absent.
    """

    organization_id: int
    member_id: int
    loyalty_member_id: str
    public_loyalty_member_id: str | None
    active: bool
    member_type: str | None
    channel_acquisition: str | None
    referral_code: str | None
    profile: Mapping[str, Any]
    custom_attributes: Mapping[str, Any]
    notifications: Mapping[str, Any]
    on_chain: Mapping[str, Any]
    wallet_id: int
    wallet_key: str
    created_at: datetime
    updated_at: datetime
    # When all that said who the member is was erased.
    erased_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class MemberTier:
    """The tier that a member holds in one program; `is_manual` until `expires_at`, or for good, whatever the points."""

    organization_id: int
    member_id: int
    loyalty_program_id: int
    loyalty_tier_id: int
    is_manual: bool
    expires_at: datetime | None
    created_at: datetime


class MemberExists(Conflict):
    """The `loyaltyMemberId` or `publicLoyaltyMemberId` belongs to a member already."""

    slug = "member-exists"
    title = "The id belongs to another member"


class MemberInactive(Conflict):
    """What is asked for is done for active members only: nothing is given to others, nothing taken from them."""

    slug = "member-inactive"
    title = "The member is not active"


class AmbiguousMember(Conflict):
    """An id fits several members, so it does not say which one is meant."""

    slug = "ambiguous-member"
    title = "The id fits several members"


def is_loyalty_member_id(text: str) -> bool:
    """True if a member may be called so from now on: the rule of `NewLoyaltyMemberId` in the documents."""
    return len(text) <= LONGEST_ID and _ID.fullmatch(text) is not None and not is_reserved_id(text)


def is_reserved_id(text: str) -> bool:
    """True if a member who is called so cannot be reached, because the path belongs to an operation."""
    return text in _OPERATIONS_BESIDE


class MemberErased(Conflict):
    """The member was erased: nobody is known any more to whom something could be given or done."""

    slug = "member-erased"
    title = "The member was erased"


def refuse_erased(member: Member) -> None:
    """Raise MemberErased for a member that was erased."""
    if member.erased_at is not None:
        raise MemberErased(f"The member {member.member_id} was erased.")


def refuse_inactive(member: Member) -> None:
    """Raise MemberInactive for a member that is not active."""
    if not member.active:
        raise MemberInactive(f"The member {member.loyalty_member_id} is not active.")


def merged(known: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What is known after an update: the members present in `changes` replace those known, None forgets one."""
    return {name: value for name, value in {**known, **changes}.items() if value is not None}


def merged_profile(known: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The profile after an update: as `merged`, also inside `govId` and `address`; lists are replaced as a whole."""
    parts = {
        name: merged(known.get(name, {}), changes[name]) or None
        for name in _PARTS_OF_PROFILE
        if changes.get(name) is not None
    }
    return merged(known, {**changes, **parts})


def differences(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> dict[str, dict[str, Any]]:
    """What an update changed, as `{"profile.city": {"from": ..., "to": ...}}`, for the log and the event."""
    found: dict[str, dict[str, Any]] = {}
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found |= differences(old, new, f"{prefix}{name}.")
        elif old != new:
            found[f"{prefix}{name}"] = {"from": old, "to": new}
    return found
