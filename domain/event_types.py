"""Event types: the built-in ones and those added by an organization (integration 2.8 and 6)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from domain.problems import Conflict
from domain.scalars import is_number

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
    "points-available",
    "points-cancelled",
    "member-payment-confirmed",
    "points-expiring",
    "points-expired",
)

# The types of derived events, which the server itself reports.
TIER_SET, TIER_REMOVED = "member-tier-set", "member-tier-removed"
TRANSACTION_CREATED = "ledger-transaction-created"
POINTS_AVAILABLE, POINTS_CANCELLED = "points-available", "points-cancelled"
BADGE_ASSIGNED, BADGE_UNASSIGNED = "badge-assigned", "badge-unassigned"
POINTS_EXPIRING, POINTS_EXPIRED = "points-expiring", "points-expired"
MISSION_ACHIEVED = "mission-status-updated"
PAYMENT_CONFIRMED = "member-payment-confirmed"
COUPON_ASSIGNED, COUPON_USED, BENEFIT_USED = "coupon-code-assigned", "coupon-code-used", "benefit-used"
COUPON_EVENTS = (COUPON_ASSIGNED, COUPON_USED, BENEFIT_USED)

EVENTS_WITH_ORDER = frozenset(
    event_type for event_type in BUILT_IN_EVENT_TYPES if event_type.startswith("member-purchase-order-")
)

# Emitted by the server only: a client that reports one would claim a movement that never happened.
NOT_TRACKABLE = frozenset({TRANSACTION_CREATED, POINTS_AVAILABLE, POINTS_CANCELLED, POINTS_EXPIRING, POINTS_EXPIRED})


@dataclass(frozen=True, slots=True)
class CustomEventType:
    """An organization's own event type, identified by `api_code`."""

    organization_id: int
    api_code: str
    name: str
    description: str | None
    schema_type: str
    active: bool
    custom_attributes: Mapping[str, Any]
    external_key: str | None
    created_at: datetime
    updated_at: datetime

    @property
    def is_custom_type(self) -> bool:
        """Always true; distinguishes custom types from built-in ones in lists of both."""
        return True


class PayloadInvalid(Conflict, title="The payload is not what the event type asks for"):
    """The payload of an event does not have the form of its type's `schemaType`."""


def check_payload(api_code: str, schema_type: str, payload: Mapping[str, Any] | None) -> None:
    """Raise PayloadInvalid if `payload.value` does not have the form of the type (integration 2.8)."""
    check = _CHECKS.get(schema_type)
    if check is None:
        return
    form, has_form = check
    value = (payload or {}).get("value")
    if value is None:
        raise PayloadInvalid(f"payload.value is missing; events of type {api_code} need {form} in this field.")
    if not has_form(value):
        raise PayloadInvalid(f"payload.value is not {form}; events of type {api_code} need {form} in this field.")


# A client that shows an address as a link would run the script in it.
_SCRIPTING_SCHEMES = ("data", "javascript", "vbscript")


def _is_absolute_url(value: Any) -> bool:
    """True for a text with a scheme that runs no script, a host, and a valid port if there is one."""
    if not isinstance(value, str) or any(char.isspace() or not char.isprintable() for char in value):
        return False
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018  # raises ValueError for an invalid port
    except ValueError:
        return False
    return bool(parts.scheme and parts.hostname) and parts.scheme not in _SCRIPTING_SCHEMES


# schemaType -> the form of payload.value, in words and as a test; other schema types allow any value.
_CHECKS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "number": ("a number", is_number),
    "string": ("a string", lambda value: isinstance(value, str)),
    "url": ("an absolute URL with a host", _is_absolute_url),
}


def pascal_case(event_type: str) -> str:
    """The PascalCase name of a built-in type: `member-created` is `MemberCreated`."""
    return "".join(word.capitalize() for word in event_type.split("-"))


def built_in_record(event_type: str) -> Mapping[str, Any]:
    """A built-in type in the form of a custom one, for lists of both."""
    return {
        "api_code": event_type,
        "name": event_type.replace("-", " ").capitalize(),
        "description": None,
        "schema_type": "builtin",
        "active": True,
        "custom_attributes": {},
        "external_key": None,
        "is_custom_type": False,
        "created_at": None,
        "updated_at": None,
    }


class ApiCodeFixed(Conflict, title="The apiCode of an event type cannot change"):
    """The apiCode of an event type cannot change, since events refer to it."""
