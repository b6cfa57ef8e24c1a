"""Audiences on the wire (administration "Records": Audience)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Annotated, Any

from marshmallow import fields

from domain.audiences import Audience, CompiledAudience
from handlers.messages.base import OF_REQUEST, Body, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attributes:
    """Attributes with their allowed values; `not_include` matches exactly the members who do not have them."""

    values: Mapping[str, Any]
    not_include: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Criteria:
    custom_attributes: _Attributes | None = field(default=None, metadata={"omit_none": True})
    tags: list[str] = field(default_factory=list)
    locations: list[str] = field(default_factory=list)
    email_domains: list[str] = field(default_factory=list)
    member_types: list[str] = field(default_factory=list)


_CRITERIA = Body(_Criteria)


class _Matcher(fields.Field[Any]):
    """The criteria of an audience by attributes, which are stored under the names of the code."""

    def dump(self, value: Any) -> Any:
        """The criteria on the wire."""
        return _CRITERIA.dump(value)

    def load(self, value: Any) -> Any:
        """The criteria in stored form."""
        return asdict(_CRITERIA.load(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceProperties:
    """The writable fields of an audience."""

    organization_id: int | None = field(default=None, metadata=OF_REQUEST)
    active: bool = True
    name: str | None = None
    description: str | None = None
    matcher_type: str
    matcher: Annotated[Mapping[str, Any], _Matcher] | None = field(default=None, metadata={"omit_none": True})
    segment_key: str | None = None
    refreshed_at: datetime | None = None
    expires_at: datetime | None = None
    member_count: int | None = None
    external_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListChange:
    """The ids of the members to put on the list of an audience, and of the members to take off the list."""

    add: list[int] = field(default_factory=list)
    remove: list[int] = field(default_factory=list)


AUDIENCE = Shape(AudienceProperties, Audience)


def audience_ids(audiences: Sequence[CompiledAudience]) -> dict[str, Any]:
    """The ids of audiences."""
    return {"audienceIds": [audience.audience_id for audience in audiences]}


def audience_keys(audiences: Sequence[CompiledAudience]) -> dict[str, Any]:
    """The keys of audiences."""
    return {"audienceKeys": [audience.audience_key for audience in audiences]}
