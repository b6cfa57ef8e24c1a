"""The organization on the wire (administration, "Organization")."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from domain.organizations import OrganizationDetails
from domain.tier_history import EVENT_DATE
from handlers.messages.base import Nested, Shape, WireSchema
from handlers.schemas.test_clock import CLOCK_OF_ORGANIZATION


@dataclass(frozen=True, slots=True, kw_only=True)
class OrganizationProperties:
    """The writable fields of the organization."""

    name: str
    description: str | None = None
    picture_url: str | None = None
    default_loyalty_program_id: int | None = None
    default_locale: str | None = None
    locales: list[str] = field(default_factory=list)
    timezone: str = "UTC"
    currency: str | None = None
    late_event_tiers: str = EVENT_DATE
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    location_timezones: Mapping[str, str] = field(default_factory=dict)
    points_expiring: Mapping[str, Any] | None = None


class _ComputedFields(WireSchema):
    test_clock = Nested(CLOCK_OF_ORGANIZATION)


ORGANIZATION = Shape(
    OrganizationDetails,
    _ComputedFields,
    without=("default_ledger_id", "configuration_version"),
    optional=("test_clock", "points_expiring"),
)
