"""Audiences: groups of members, defined by attributes or by a list (administration "Audiences").

An audience applies while it is active and not expired. An audience of type `null-matcher` has its members in another
system, and matches no member here.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.fields import Key
from domain.members import Member
from domain.problems import MAX_NAME_LENGTH, Conflict, FieldFault, InvalidRequest, NotFound, pointer_part
from domain.scalars import MAX_TEXT_LENGTH, equality_key, is_scalar

ATTRIBUTE_MATCHER, LIST_MATCHER, NULL_MATCHER = "attribute-matcher", "list-matcher", "null-matcher"
MAX_VALUES = 100

MemberPredicate = Callable[[Member], bool]


@dataclass(frozen=True, slots=True)
class Audience:
    """A stored audience.

    `matcher` is set only for audiences defined by attributes. `member_count` is the length of the list; for other types
    it is the number that the client sent.
    """

    organization_id: int
    audience_id: int
    audience_key: Key
    active: bool
    name: str | None
    description: str | None
    matcher_type: str
    matcher: Mapping[str, Any] | None
    segment_key: str | None
    version: int
    refreshed_at: datetime | None
    expires_at: datetime | None
    member_count: int | None
    external_key: str | None
    created_at: datetime
    updated_at: datetime

    @property
    def name_or_key(self) -> str:
        """The name for messages; the key of an audience without a name."""
        return self.name or self.audience_key


class UnknownAudience(NotFound, title="The audience does not exist"):
    """The organization does not have the audience that the request names."""


class NotAListAudience(Conflict, title="The audience has no list of members"):
    """Only an audience of type `list-matcher` has a list of members."""


class MatcherTypeFixed(Conflict, title="The matcherType of an audience cannot change"):
    """The matcherType of an audience cannot change, so that no list is lost or left unused."""


@dataclass(frozen=True, slots=True)
class CompiledAudience:
    """An active audience ready to use; `matches` tests the attributes of a member, None if the audience is a list."""

    audience_id: int
    audience_key: str
    expires_at: datetime | None
    matches: MemberPredicate | None

    def applies(self, at: datetime) -> bool:
        """True until the audience expires."""
        return self.expires_at is None or at < self.expires_at

    def has(self, member: Member, list_ids: Collection[int]) -> bool:
        """True if the member is in the audience; `list_ids` are the ids of the audiences that list the member."""
        return self.audience_id in list_ids if self.matches is None else self.matches(member)


def compile_audience(audience: Audience) -> CompiledAudience | None:
    """Compile an audience; return None if it is inactive or of type `null-matcher`, and so matches no member."""
    if not audience.active or audience.matcher_type == NULL_MATCHER:
        return None
    matches = None if audience.matcher is None else compile_attribute_matcher(audience.matcher)
    return CompiledAudience(audience.audience_id, audience.audience_key, audience.expires_at, matches)


def check_matcher(matcher_type: str, matcher: Mapping[str, Any] | None, before: Audience | None = None) -> None:
    """Refuse a matcher that is missing, not allowed for its type, or cannot be compared with attributes.

    `before` is the audience before the change, None for a new audience. Raises InvalidRequest, and MatcherTypeFixed if
    the type changes.
    """
    if before is not None and matcher_type != before.matcher_type:
        raise MatcherTypeFixed(
            f"The matcherType of the audience {before.name_or_key} is {before.matcher_type} and cannot change. "
            "Create an audience of the other type."
        )
    if matcher_type == ATTRIBUTE_MATCHER:
        if matcher is None:
            raise InvalidRequest([FieldFault("matcherType attribute-matcher needs a matcher", pointer="/matcher")])
        compile_attribute_matcher(matcher)
    elif matcher is not None:
        fault = "matcher is only allowed with the matcherType attribute-matcher"
        raise InvalidRequest([FieldFault(fault, pointer="/matcher")])


def compile_attribute_matcher(matcher: Mapping[str, Any]) -> MemberPredicate:
    """Compile a matcher to a predicate that is true for members who meet every given criterion.

    `matcher` has custom_attributes ({values, not_include} or None), tags, locations, email_domains and member_types. A
    matcher without criteria matches every member. Raises InvalidRequest for values that no attribute can be compared
    with.
    """
    tests = [_any_of(matcher[name], values_of) for name, values_of in _CRITERIA.items() if matcher[name]]
    if matcher["email_domains"]:
        tests.append(_any_of([domain.lower() for domain in matcher["email_domains"]], _email_domains))
    if matcher["custom_attributes"] is not None:
        tests.append(_attribute_predicate(matcher["custom_attributes"]))
    return lambda member: all(test(member) for test in tests)


def _email_domains(member: Member) -> list[str]:
    """The domains of all addresses of the member, in lower case."""
    addresses = [member.profile.get("email"), *(member.profile.get("emails") or ())]
    return [address.rpartition("@")[2].lower() for address in addresses if address]


_CRITERIA: Mapping[str, Callable[[Member], Collection[str]]] = {
    "tags": lambda member: member.profile.get("tags") or (),
    "locations": lambda member: member.profile.get("locations") or (),
    "member_types": lambda member: () if member.member_type is None else (member.member_type,),
}


def _any_of(accepted_values: Collection[str], values_of: Callable[[Member], Collection[str]]) -> MemberPredicate:
    """A predicate that is true for members for whom `values_of` returns at least one of the accepted values."""
    accepted = frozenset(accepted_values)
    return lambda member: not accepted.isdisjoint(values_of(member))


def _attribute_predicate(criterion: Mapping[str, Any]) -> MemberPredicate:
    """A predicate that is true if every named attribute has one of its `values`; `not_include` negates it.

    Raises InvalidRequest for values that no attribute can be compared with.
    """
    accepted_by_name: dict[str, frozenset[Any]] = {}
    faults: list[FieldFault] = []
    for name, value in criterion["values"].items():
        values = value if isinstance(value, list) else [value]
        if 0 < len(values) <= MAX_VALUES and all(map(is_scalar, values)):
            accepted_by_name[name] = frozenset(map(equality_key, values))
        else:
            detail = (
                f"{name[:MAX_NAME_LENGTH]} has a value that is neither a text of 1 to {MAX_TEXT_LENGTH} characters,"
                f" nor a number, a boolean, or a list of 1 to {MAX_VALUES} of these"
            )
            faults.append(FieldFault(detail, pointer=f"/matcher/customAttributes/values/{pointer_part(name)}"))
    if faults:
        raise InvalidRequest(faults)
    includes = not criterion["not_include"]
    return lambda member: (
        includes == all(_has_accepted_value(member, name, values) for name, values in accepted_by_name.items())
    )


def _has_accepted_value(member: Member, name: str, accepted: frozenset[Any]) -> bool:
    """True if the member's attribute `name`, or an element of it, is `accepted`.

    An attribute that the member's `custom_attributes` lack is read from the profile.
    """
    attributes = member.custom_attributes
    attribute = attributes[name] if name in attributes else (member.profile.get("customAttributes") or {}).get(name)
    values = attribute if isinstance(attribute, list | tuple) else [attribute]
    return any(equality_key(value) in accepted for value in values)
