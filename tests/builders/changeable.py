"""Records that can be changed, and the records that their fields refer to."""

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
    """A record that can be changed by requests to `path`: `body` is an update that sets many of its fields.

    It is read by `read`, or else from `get`, or else from `path`, with `query`. The other fields are about an update
    that clears one field of the record:
    - `together` has by field the further fields that the update must send.
    - `follows` are fields of the record that change with other fields.
    - `unset` has, by dotted field name, the value after null if it is not empty, or a function that checks the value.
    - `not_answered` are fields of the body that responses do not have.
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


# The fields of a record that is open at some hours of the week instead of on some days.
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
    path = f"/loyalty-programs/{organization.defaults.loyalty_program_id}/tiers"
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
