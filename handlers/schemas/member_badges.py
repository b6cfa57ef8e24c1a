"""Badges of members on the wire (integration 4.3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from handlers.messages.base import Body, Plain, Shape, WireSchema
from handlers.schemas.badges import BadgeProperties, BadgeRecord


class _MemberBadge(WireSchema):
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


MEMBER_BADGE = Shape(BadgeProperties, BadgeRecord, _MemberBadge)
BALANCE = Shape(_Balance)
GRANT = Body(GrantRequest)
