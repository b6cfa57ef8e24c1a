"""Badges of members on the wire (integration 4.3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from domain.badges import BadgeBalance, MemberBadge
from handlers.messages.base import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRequest:
    """An assignment or unassignment of a badge by request."""

    amount: int = 1
    system_unique_key: str | None = None
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    external_id: str | None = None


MEMBER_BADGE = Shape(MemberBadge, without=("organization_id",))
BALANCE = Shape(BadgeBalance)
