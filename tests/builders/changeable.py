"""Records that can be changed, and what several of them name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.builders.api import Organization

TEXTS = {"description": "Said of it", "pictureUrl": "https://images.example.com/a.png"}
ATTRIBUTES = {"customAttributes": {"a": [1, {"b": None}]}}
WINDOW = ("2026-01-01T00:00:00Z", "2031-01-01T00:00:00Z")
LATTE = {"operator": "AND", "conditions": [{"field": "productCode", "operator": "equals", "value": "latte"}]}
ORDER_CREATED = "member-purchase-order-created"


@dataclass(frozen=True)
class Changeable:
    """A record that can be changed: `body` is a whole update of it, `get` the path to read it from.

    With null for a field, those in `together` are sent, too. `follows` are fields of the record that others imply.
    `unset` has the values, by dotted field names, that null means where they are not empty.
    """

    path: str
    body: Mapping[str, Any]
    get: str | None = None
    query: Mapping[str, Any] = field(default_factory=dict)
    together: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    follows: Sequence[str] = ()
    unset: Mapping[str, Any] = field(default_factory=dict)
    not_answered: Sequence[str] = ()
    read: Callable[[], Mapping[str, Any]] | None = None


# Fields of a record that is open at some hours of the week, in place of those of one that is open on some days.
BY_HOURS = {
    "daysOfWeek": [],
    "dayOfWeekSchedule": {"schedule": [{"day": 5, "from": "22:00", "to": "02:00"}]},
}


def audience(organization: Organization, **more: Any) -> dict[str, Any]:
    """A new audience."""
    body = {"matcherType": "attribute-matcher", "matcher": {"tags": ["vip"]}, **more}
    return organization.administration.post("/audiences", body)["audience"]


def tier(organization: Organization) -> dict[str, Any]:
    """A new tier of the default program."""
    path = f"/loyalty-programs/{organization.created.loyalty_program_id}/tiers"
    body = {"name": "Gold", "active": True, "minRequiredPoints": 10, "tierOrder": 2}
    return organization.administration.post(path, body)["tier"]


def coupon_book(organization: Organization) -> str:
    """The key of a new coupon book."""
    body = {"name": "Coffee", "type": "codeless", "publishingStatus": "published"}
    return organization.integration.post("/coupon-books", body)["couponBook"]["couponBookKey"]


def badge_key(organization: Organization) -> str:
    """The key of a new badge."""
    body = {"name": "A", "maxAmount": 3, "active": True}
    return organization.integration.post("/badges", body)["badge"]["badgeKey"]
