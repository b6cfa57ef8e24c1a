"""Item matchers on the wire (administration "Records": Matcher)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from handlers.messages.base import OF_REQUEST, Body, Instant, Plain, Shape, Update, WireSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class MatcherProperties:
    """The writable fields of a matcher."""

    organization_id: int | None = field(default=None, metadata=OF_REQUEST)
    name: str
    type: str
    matcher: Mapping[str, Any]
    external_key: str | None = None


class _Record(WireSchema):
    matcher_id = Plain()
    matcher_key = Plain()
    created_at = Instant()
    updated_at = Instant()


MATCHER_BODY = Body(MatcherProperties)
MATCHER_CHANGES = Update(MatcherProperties)
MATCHER = Shape(MatcherProperties, _Record)
