"""Event types: the built-in ones and those an organization adds (integration 2.8 and 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.problems import Conflict

BUILT_IN_EVENT_TYPES: tuple[str, ...] = (
    "member-purchase-order-created",
    "member-purchase-order-confirmed",
    "member-purchase-order-cancelled",
    "member-purchase-order-rejected",
    "member-purchase-order-returned",
    "member-purchase-order-partially-returned",
    "member-created",
    "member-updated",
    "member-profile-completed",
    "member-tier-set",
    "member-tier-removed",
    "member-profile-deactivated",
    "member-generic-event",
    "benefit-used",
    "coupon-code-assigned",
    "coupon-code-used",
    "badge-assigned",
    "badge-unassigned",
    "mission-status-updated",
    "ledger-transaction-created",
    "member-payment-confirmed",
)

EVENTS_WITH_ORDER = frozenset(each for each in BUILT_IN_EVENT_TYPES if each.startswith("member-purchase-order-"))

# Emitted by the server alone: a client that reports one would claim a movement that never happened.
NOT_TRACKABLE = frozenset({"ledger-transaction-created"})


@dataclass(frozen=True, slots=True)
class CustomEventType:
    """An event type of the organization's own, identified by `api_code`."""

    organization_id: int
    api_code: str
    name: str
    description: str | None
    schema_type: str
    active: bool
    custom_attributes: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime

    @property
    def is_custom_type(self) -> bool:
        """Always true: told apart from the built-in types in lists of both."""
        return True


def pascal_case(event_type: str) -> str:
    """The PascalCase name of a built-in type: `member-created` is `MemberCreated`."""
    return "".join(word.capitalize() for word in event_type.split("-"))


def built_in(event_type: str) -> Mapping[str, Any]:
    """A built-in type in the form of the organization's own, for lists of both."""
    return {
        "api_code": event_type,
        "name": event_type.replace("-", " ").capitalize(),
        "description": None,
        "schema_type": "builtin",
        "active": True,
        "custom_attributes": {},
        "is_custom_type": False,
        "created_at": None,
        "updated_at": None,
    }


class ApiCodeFixed(Conflict):
    """An event type keeps its apiCode for good: events name it."""

    slug = "api-code-fixed"
    title = "The apiCode of an event type cannot change"
