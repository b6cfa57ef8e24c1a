"""The `timezone` of a record: its validation, and its effect on dates in the same request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from domain.calendar import is_zone, moment_in, zone_named, zone_names
from domain.near_names import LONGEST_NAME, did_you_mean
from domain.problems import FieldFault


def not_a_zone(name: str, field: str = "timezone") -> str:
    """The fault of a name that is no time zone."""
    meant = did_you_mean(name, sorted(zone_names()))
    return f"{field} {name[:LONGEST_NAME]} is not a time zone of the IANA database, such as Europe/Madrid.{meant}"


def zone_faults(name: str | None) -> list[FieldFault]:
    """The faults of a `timezone`; None, for no time zone, has none."""
    return [] if name is None or is_zone(name) else [FieldFault(not_a_zone(name), pointer="/timezone")]


def localize(body: dict[str, Any], names: Iterable[str], default: str) -> None:
    """Give the moments `names` of a body that lack an offset that of its `timezone`, or else of `default`."""
    own = body["timezone"]
    zone = zone_named(own if own is not None and is_zone(own) else default)
    for name in names:
        if body[name] is not None:
            body[name] = moment_in(zone, body[name])
