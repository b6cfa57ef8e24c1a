"""Organizations: the tenants, each with a default ledger and loyalty program."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from domain.calendar import zone_named
from domain.fields import Key

# The environment of an organization: only the records of a test organization can be removed as a whole.
LIVE, TEST = "live", "test"


@dataclass(frozen=True, slots=True)
class Organization:
    """A tenant; `timezone` is used for everything without a time zone of its own.

    `late_event_tiers` says by which tiers late events are evaluated, see `domain.tier_history`.
    `configuration_version` rises with every change that the evaluation of events depends on.
    """

    organization_id: int
    organization_key: Key
    name: str
    description: str | None
    picture_url: str | None
    default_loyalty_program_id: int | None
    default_ledger_id: int | None
    subscription_level: str
    payment_processor_customer_id: str | None
    subscription_expiration_date: datetime | None
    default_locale: str
    locales: tuple[str, ...]
    timezone: str
    # Decided at the creation: only records of test organizations can be removed as a whole.
    environment: str
    late_event_tiers: str
    custom_attributes: Mapping[str, Any]
    configuration_version: int
    created_at: datetime
    updated_at: datetime

    @property
    def zone(self) -> tzinfo:
        """The zone of `timezone`."""
        return zone_named(self.timezone)
