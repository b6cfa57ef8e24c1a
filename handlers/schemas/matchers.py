"""Item matchers on the wire (administration "Records": Matcher)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from domain.matchers import Matcher
from handlers.messages.base import OF_REQUEST, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class MatcherProperties:
    """The writable fields of a matcher."""

    organization_id: int | None = field(default=None, metadata=OF_REQUEST)
    name: str
    type: str
    matcher: Mapping[str, Any]
    external_key: str | None = None


MATCHER = Shape(Matcher)
