"""Badges on the wire (integration 2.4 and 4.3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from domain.badges import Badge
from handlers.messages.base import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class BadgeProperties:
    """The writable fields of a badge."""

    name: str
    description: str | None = None
    picture_url: str | None = None
    max_amount: int | None = None
    active: bool
    tags: list[str] = field(default_factory=list)
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    external_key: str | None = None


BADGE = Shape(Badge, without=("organization_id",))
