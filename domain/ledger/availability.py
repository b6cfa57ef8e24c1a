"""When minted points become available: at a moment, some time after their event, or once another event has happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from domain.calendar import LAST_MOMENT, instant_of, instant_text, local_time, start_of_day
from domain.durations import duration_of
from domain.event_types import NOT_TRACKABLE
from domain.problems import Conflict, FieldFault

# The availability of the points of a transaction, and what the end of a wait is rounded to.
AVAILABLE, WAITING = "available", "waiting"
NONE, DAY = "none", "day"

# The names of the terms on the wire.
TERMS = ("availableAt", "availableAfter", "availableRounding", "availableOn")

MAX_WAIT = "P2Y"
MAX_EVENT_TYPES = 20
# The name, in the stored terms of a waiting mint, of the order whose event it waits for.
ORDER = "orderExternalId"
# Durations are compared by their ends, counted from this moment. Two years from it contain a leap day: 731 days.
_START_OF_LEAP_YEAR = datetime(2000, 1, 1, tzinfo=UTC)


NOT_CONFIRMED = "not-confirmed"
"""The reason for the revert of a mint whose event has not happened in time."""


class ExpiresBeforeAvailable(Conflict, title="The points would expire before they are available"):
    """Points that wait cannot expire before they are available."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The wait of a mint for the moment `available_at`, which may have passed.

    If the moment is None, the mint waits for an event, at most until `cancelled_at`, by the stored terms `awaited`.
    """

    available_at: datetime | None
    awaited: Mapping[str, Any] | None = None
    cancelled_at: datetime | None = None

    @property
    def available_at_text(self) -> str | None:
        """The moment on the wire; None while it is unknown."""
        return None if self.available_at is None else instant_text(self.available_at)


# Without slots, so that requests that have slots can inherit from it.
@dataclass(frozen=True, kw_only=True)
class TermsOfAvailability:
    """The fields of a request that determine when minted points become available."""

    __slots__ = ()

    available_at: datetime | None = None
    available_after: str | None = None
    available_rounding: str | None = None
    available_on: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Availability:
    """The terms on which points become available, as requests and settings name them.

    The terms are a moment (`at`), or a duration `after` the event that caused the mint. If `rounding` is `day`, the end
    of the duration is rounded up to the next local midnight. With `on` the points wait for another event, of one of the
    types in `on`, and the duration begins at the date of that event.
    """

    at: datetime | None = None
    after: str | None = None
    rounding: str | None = None
    on: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Availability:
        """The terms from their form on the wire."""
        at = document.get("availableAt")
        return cls(
            instant_of(at) if isinstance(at, str) else at,
            document.get("availableAfter"),
            document.get("availableRounding"),
            document.get("availableOn"),
        )

    @classmethod
    def from_fields_of(cls, source: Any) -> Availability | None:
        """The terms in the fields of a request or record, as TermsOfAvailability has them; None if no field is set."""
        terms = cls(source.available_at, source.available_after, source.available_rounding, source.available_on)
        return terms if terms.term_names else None

    @property
    def term_names(self) -> list[str]:
        """The names on the wire of the terms that are set."""
        values = (self.at, self.after, self.rounding, self.on)
        return [name for name, value in zip(TERMS, values, strict=True) if value is not None and value != NONE]

    def as_document(self) -> dict[str, Any]:
        """The terms on the wire, as an account stores them."""
        terms: dict[str, Any] = {
            "availableAt": None if self.at is None else instant_text(self.at),
            "availableAfter": self.after,
            "availableRounding": self.rounding or NONE,
        }
        return terms if self.on is None else {**terms, "availableOn": awaited_event(self.on)}

    @property
    def event_types(self) -> Sequence[str]:
        """The event types that the points wait for; one event of any of them is enough."""
        return () if self.on is None else self.on["eventTypes"]

    def wait(self, happened_at: datetime, zone: tzinfo, order_external_id: str | None = None) -> Wait | None:
        """The wait of a mint whose cause happened at `happened_at`; None without terms. Days are counted in `zone`.

        If the points wait for an event, those of an order wait for an event of that order.
        """
        if self.at is None and self.after is None and self.on is None:
            return None
        if self.on is None:
            return Wait(max(happened_at, self.at) if self.at is not None else self.moment(happened_at, zone))
        cancel_after = self.on.get("cancelAfter")
        cancelled_at = None if cancel_after is None else duration_of(cancel_after).after(happened_at, zone)
        terms = {
            **self.on,
            "availableAfter": self.after,
            "availableRounding": self.rounding,
            ORDER: order_external_id,
        }
        return Wait(available_at=None, awaited=terms, cancelled_at=cancelled_at)

    def faults(self) -> Iterator[tuple[str, str]]:
        """Contradictions between the terms, each with the name of a field on the wire."""
        if self.at is not None:
            # The first term is availableAt itself.
            for name in self.term_names[1:]:
                yield name, f"{name} and availableAt exclude each other: send one of them"
        if self.rounding == DAY and self.after is None and self.on is None:
            yield "availableRounding", "availableRounding rounds nothing without availableAfter or availableOn"
        yield from _faults_of_duration("availableAfter", self.after)
        if self.on is not None:
            yield from (("availableOn", detail) for detail in _faults_of_event(self.on))

    def field_faults(self, pointer: str = "") -> list[FieldFault]:
        """The contradictions as faults of a request, below `pointer`."""
        return [FieldFault(detail, pointer=f"{pointer}/{name}") for name, detail in self.faults()]

    def moment(self, happened_at: datetime, zone: tzinfo) -> datetime:
        """When points whose cause happened at `happened_at` become available: `after` it, rounded by `rounding`."""
        moment = happened_at if self.after is None else duration_of(self.after).after(happened_at, zone)
        return _next_midnight(moment, zone) if self.rounding == DAY else moment


AT_ONCE = Availability()
"""The terms of points that do not wait."""


def available_after_event(awaited: Mapping[str, Any], event_at: datetime, zone: tzinfo) -> datetime:
    """When a mint that waited for an event becomes available, by its stored terms and the date of the event."""
    return Availability(after=awaited["availableAfter"], rounding=awaited["availableRounding"]).moment(event_at, zone)


def awaited_event(awaited: Mapping[str, Any]) -> dict[str, Any]:
    """`availableOn` on the wire, from a request or from stored terms; `cancelAfter` is None if it was not sent."""
    return {"eventTypes": awaited["eventTypes"], "cancelAfter": awaited.get("cancelAfter")}


def _next_midnight(moment: datetime, zone: tzinfo) -> datetime:
    """The first local midnight at or after a moment."""
    day = local_time(moment, zone).date()
    first = start_of_day(day, zone)
    if first == moment:
        return moment
    try:
        return start_of_day(day + timedelta(days=1), zone)
    except OverflowError:
        return LAST_MOMENT


def _faults_of_event(event: Mapping[str, Any]) -> Iterator[str]:
    """The reasons why no event could match `availableOn`."""
    types = event.get("eventTypes")
    for name in event.keys() - {"eventTypes", "cancelAfter"}:
        yield f"availableOn has no field {name}"
    if not isinstance(types, list | tuple) or not 1 <= len(types) <= MAX_EVENT_TYPES:
        yield f"eventTypes of availableOn is not a list of 1 to {MAX_EVENT_TYPES} types"
        return
    if not all(isinstance(event_type, str) for event_type in types) or len(set(types)) < len(types):
        yield "eventTypes of availableOn is not a list of different texts"
        return
    yield from (f"availableOn cannot wait for {name}, an event about points" for name in types if name in NOT_TRACKABLE)
    cancel_after = event.get("cancelAfter")
    if not isinstance(cancel_after, str | None):
        yield "cancelAfter of availableOn is not a duration"
        return
    yield from (detail for _, detail in _faults_of_duration("cancelAfter", cancel_after))


def _faults_of_duration(name: str, text: str | None) -> Iterator[tuple[str, str]]:
    """A fault if the field `name` has a text that is no duration, or is longer than MAX_WAIT; None has no fault."""
    if text is None:
        return
    try:
        end = duration_of(text).after(_START_OF_LEAP_YEAR, UTC)
    except ValueError as error:
        yield name, f"{name}: {error}"
        return
    if end > duration_of(MAX_WAIT).after(_START_OF_LEAP_YEAR, UTC):
        yield name, f"{name} is {text}, more than {MAX_WAIT}"
