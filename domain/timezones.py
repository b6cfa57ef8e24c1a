"""The time zone that something carries: what it is called, and what it does to the dates of the same request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from domain.calendar import is_zone, moment_in, zone_named
from domain.problems import FieldFault

NOT_A_ZONE = "timezone is not a time zone of the IANA database, such as Europe/Madrid"


def zone_faults(name: str | None) -> list[FieldFault]:
    """What is wrong with a `timezone`; None is none."""
    return [] if name is None or is_zone(name) else [FieldFault(NOT_A_ZONE, pointer="/timezone")]


def localize(body: dict[str, Any], names: Iterable[str], default: str) -> None:
    """Let the moments `names` of a body that have no offset be local times in its `timezone`, else in `default`."""
    own = body["timezone"]
    zone = zone_named(own if own is not None and is_zone(own) else default)
    for name in names:
        if body[name] is not None:
            body[name] = moment_in(zone, body[name])
