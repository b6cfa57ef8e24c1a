"""Organizations: the tenants, each with a default ledger and loyalty program."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from domain.calendar import is_zone, not_a_zone, zone_named
from domain.fields import Internal, Key
from domain.problems import FieldFault, pointer_part
from domain.test_clocks import TestClock

# The environment of an organization: only the records of a test organization can be removed as a whole.
LIVE, TEST = "live", "test"


@dataclass(frozen=True, slots=True)
class Organization:
    """A tenant; `timezone` is used for everything without a time zone of its own, `currency` for orders without one.

    `late_event_tiers` decides by which tiers late events are evaluated, see `domain.tier_history`.
    `configuration_version` rises with every change that the evaluation of events depends on, and with every change of
    the status of a coupon book.
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
    currency: str | None
    # Decided at the creation: only records of test organizations can be removed as a whole.
    environment: str
    late_event_tiers: str
    custom_attributes: Mapping[str, Any]
    configuration_version: int
    created_at: datetime
    updated_at: datetime
    # What its test clock shows, and the moment that an advance leads to; null without a clock, see `TestClock`.
    clock_now: Internal[datetime | None]
    clock_target: Internal[datetime | None]
    # Whether points of its members have ever waited for an event; if not, events need not look for such points.
    awaits_events: Internal[bool]

    @property
    def zone(self) -> tzinfo:
        """The zone of `timezone`."""
        return zone_named(self.timezone)

    def time_at(self, real_now: datetime) -> datetime:
        """The time of the organization: what its test clock shows, or the real time."""
        return real_now if self.clock_now is None else self.clock_now


@dataclass(frozen=True, slots=True)
class OrganizationDetails(Organization):
    """A tenant with the settings that not every call needs.

    `location_timezones` are the time zones of locations by their codes. `points_expiring` are notices of points
    that will expire, for accounts without any of their own.
    """

    location_timezones: Mapping[str, str]
    points_expiring: Mapping[str, Any] | None
    clock_started_at: Internal[datetime | None]
    clock_steps: Internal[int | None]
    clock_error: Internal[str | None]

    @property
    def test_clock(self) -> TestClock | None:
        """The test clock; None if the organization uses the real time."""
        if self.clock_now is None:
            return None
        return TestClock(
            self.clock_now, self.clock_target, self.clock_started_at, self.clock_steps or 0, self.clock_error
        )


def locale_faults(default_locale: str, locales: Collection[str]) -> list[FieldFault]:
    """The fault of a default locale that is none of the organization's locales, if it lists any."""
    if not locales or default_locale in locales:
        return []
    return [FieldFault(f"defaultLocale is {default_locale}, which is not one of the locales", pointer="/defaultLocale")]


MAX_LOCATION_CODE = 100
_MAX_FAULTS = 20


def location_faults(timezones: Mapping[str, str]) -> list[FieldFault]:
    """The faults of `locationTimezones`: codes that no order can have, and names that are no time zones.

    At most 20 entries are listed; the last fault has the number of the other ones.
    """
    base_pointer = "/locationTimezones"
    faulty_codes = [
        code for code, zone in timezones.items() if not (0 < len(code) <= MAX_LOCATION_CODE and is_zone(zone))
    ]
    faults = []
    for code in faulty_codes[:_MAX_FAULTS]:
        pointer = f"{base_pointer}/{pointer_part(code)}"
        if 0 < len(code) <= MAX_LOCATION_CODE:
            faults.append(FieldFault(not_a_zone(timezones[code], code), pointer=pointer))
        else:
            detail = f"locationTimezones has a code of {len(code)} characters; codes have 1 to {MAX_LOCATION_CODE}"
            faults.append(FieldFault(detail, pointer=pointer))
    if len(faulty_codes) > _MAX_FAULTS:
        detail = f"locationTimezones has {len(faulty_codes) - _MAX_FAULTS} more faulty entries"
        faults.append(FieldFault(detail, pointer=base_pointer))
    return faults
