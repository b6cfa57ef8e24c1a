"""Badges, balances and trackings on the wire (integration 2.4 and 4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from handlers.messages.base import Body, Instant, Plain, Shape, Update, WireSchema


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


class _Record(WireSchema):
    badge_id = Plain()
    badge_key = Plain()
    created_at = Instant()
    updated_at = Instant()


class _MemberBadge(_Record):
    assigned_balance = Plain()


class _Balance(WireSchema):
    badge_id = Plain()
    badge_key = Plain()
    member_id = Plain()
    loyalty_member_id = Plain()
    assigned_balance = Plain()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRequest:
    """An assignment or unassignment of a badge by request."""

    amount: int = 1
    system_unique_key: str | None = None
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    external_id: str | None = None


BADGE_BODY = Body(BadgeProperties)
BADGE_CHANGES = Update(BadgeProperties)
BADGE = Shape(BadgeProperties, _Record)
MEMBER_BADGE = Shape(BadgeProperties, _MemberBadge)
BALANCE = Shape(_Balance)
GRANT = Body(GrantRequest)
