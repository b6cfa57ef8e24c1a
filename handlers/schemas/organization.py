"""The organization on the wire (administration, "Organization")."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from handlers.messages.base import Instant, Plain, Shape, Update, WireSchema


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
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)


class _Record(WireSchema):
    organization_id = Plain()
    organization_key = Plain()
    environment = Plain()
    subscription_level = Plain()
    subscription_expiration_date = Instant()
    payment_processor_customer_id = Plain()
    created_at = Instant()
    updated_at = Instant()


ORGANIZATION_CHANGES = Update(OrganizationProperties)
ORGANIZATION = Shape(OrganizationProperties, _Record)
