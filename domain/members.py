"""Members of an organization's loyalty programs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from domain.fields import Internal, Key, Personal
from domain.problems import Conflict
from domain.profiles import PROFILE

MAX_ID_LENGTH = 255
# Blanks at the ends of an id are refused, since ids that differ only by them look the same. Control characters are
# refused anywhere.
_BLANK = r"\s\u200b-\u200f\u2060\ufeff"
_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
# The id is part of paths: no slash, not only dots, and not the name of an operation at the same place.
_ID = re.compile(rf"(?![{_BLANK}])(?!\.+\Z)[^/{_CONTROL}]+(?<![{_BLANK}])")
_RESERVED_IDS = frozenset({"batch", "exists"})


@dataclass(frozen=True, slots=True)
class Member:
    """A member; `wallet_id` holds the member's balances in the organization's default ledger.

    `profile` and `notifications` hold only known fields, by the names of the API; unknown ones are absent.
    """

    organization_id: int
    member_id: int
    loyalty_member_id: Personal[str]
    public_loyalty_member_id: Personal[str | None]
    active: bool
    member_type: Personal[str | None]
    channel_acquisition: Personal[str | None]
    referral_code: Personal[str | None]
    profile: Personal[Mapping[str, Any]]
    custom_attributes: Personal[Mapping[str, Any]]
    notifications: Personal[Mapping[str, Any]]
    on_chain: Personal[Mapping[str, Any]]
    wallet_id: int
    wallet_key: Key
    created_at: datetime
    updated_at: datetime
    # When the member's personal data was erased.
    erased_at: Internal[datetime | None] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberProperties:
    """The writable fields of a member."""

    loyalty_member_id: str
    public_loyalty_member_id: str | None = None
    profile: Mapping[str, Any] = field(default_factory=dict)
    active: bool = True
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    member_type: str | None = None
    channel_acquisition: str | None = None
    notifications: Mapping[str, Any] = field(default_factory=dict)
    referral_code: str | None = None
    on_chain: Mapping[str, Any] = field(default_factory=lambda: {"wallets": []})


class MemberExists(Conflict, title="The id belongs to another member"):
    """Another member already has the `loyaltyMemberId` or `publicLoyaltyMemberId`."""


def member_exists(loyalty_member_id: str | None) -> MemberExists:
    """The refusal of a `loyaltyMemberId` that another member has."""
    return MemberExists(f"A member with the loyaltyMemberId {loyalty_member_id} already exists.")


def public_id_exists(public_loyalty_member_id: str | None) -> MemberExists:
    """The refusal of a `publicLoyaltyMemberId` that another member has."""
    return MemberExists(f"A member with the publicLoyaltyMemberId {public_loyalty_member_id} already exists.")


class MemberInactive(Conflict, title="The member is not active"):
    """The operation is for active members only: inactive ones receive nothing, and nothing is taken from them."""


class AmbiguousMember(Conflict, title="The id fits several members"):
    """An id matches several members and does not identify one of them."""


def is_loyalty_member_id(text: str) -> bool:
    """True if a member can get this id: the rule of `NewLoyaltyMemberId` in the OpenAPI documents."""
    return len(text) <= MAX_ID_LENGTH and _ID.fullmatch(text) is not None and not is_reserved_id(text)


def is_reserved_id(text: str) -> bool:
    """True if a member with this id could not be reached: `/members/batch`, for one, is the path of an operation."""
    return text in _RESERVED_IDS


class MemberErased(Conflict, title="The member was erased"):
    """An erased member cannot receive anything, and cannot be changed."""


def refuse_erased(member: Member) -> None:
    """Raise MemberErased for a member that was erased."""
    if member.erased_at is not None:
        raise MemberErased(f"The member {member.member_id} was erased.")


def refuse_inactive(member: Member) -> None:
    """Raise MemberInactive for a member that is not active."""
    if not member.active:
        raise inactive_member(member)


def inactive_member(member: Member) -> MemberInactive:
    """The refusal of an operation that needs an active member."""
    return MemberInactive(f"The member {member.loyalty_member_id} is not active.")


def merge_fields(fields: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge an update into fields: values in `changes` replace them, and None removes a field."""
    return {name: value for name, value in {**fields, **changes}.items() if value is not None}


def merge_profile(profile: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge an update into a profile, also inside objects with parts; lists are replaced as a whole."""
    parts = {
        # None removes an object without any field left.
        name: merge_fields(profile.get(name, {}), changes[name]) or None
        for name, profile_field in PROFILE.items()
        if profile_field.parts and changes.get(name) is not None
    }
    return merge_fields(profile, {**changes, **parts})


MAX_PREFIX = 100
"""The maximum length of the name of an object whose fields `differences` names one by one."""


def differences(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> dict[str, dict[str, Any]]:
    """The changes of an update, as `{"profile.city": {"from": ..., "to": ...}}`, for the log and the event.

    An object whose own name has more than `MAX_PREFIX` characters counts as one changed value.
    """
    changes: dict[str, dict[str, Any]] = {}
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        path = f"{prefix}{name}"
        # The names of all fields of an object begin with its name.
        if isinstance(old, Mapping) and isinstance(new, Mapping) and len(path) <= MAX_PREFIX:
            changes |= differences(old, new, f"{path}.")
        elif old != new:
            changes[path] = {"from": old, "to": new}
    return changes
