"""The `timezone` of a record: its validation, and its effect on dates in the same request."""

from collections.abc import Iterable
from dataclasses import Field, replace
from typing import Any, ClassVar, Protocol, TypeVar

from domain.calendar import ZONE_NAMES, is_zone, moment_in, zone_named
from domain.near_names import LONGEST_NAME, did_you_mean
from domain.problems import FieldFault


class _Zoned(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def timezone(self) -> str | None: ...


Zoned = TypeVar("Zoned", bound=_Zoned)


def not_a_zone(name: str, field: str = "timezone") -> str:
    """The fault of a name that is no time zone."""
    meant = did_you_mean(name, sorted(ZONE_NAMES))
    return f"{field} {name[:LONGEST_NAME]} is not a time zone of the IANA database, such as Europe/Madrid.{meant}"


def zone_faults(name: str | None) -> list[FieldFault]:
    """The faults of a `timezone`; None, for no time zone, has none."""
    return [] if name is None or is_zone(name) else [FieldFault(not_a_zone(name), pointer="/timezone")]


def localized(record: Zoned, names: Iterable[str], default: str) -> Zoned:
    """The record with an offset for its moments `names` that lack one: that of its `timezone`, or else of `default`."""
    own = record.timezone
    zone = zone_named(own if own is not None and is_zone(own) else default)
    given = {name: moment for name in names if (moment := getattr(record, name)) is not None}
    moments: dict[str, Any] = {name: moment_in(zone, moment) for name, moment in given.items()}
    return replace(record, **moments)
