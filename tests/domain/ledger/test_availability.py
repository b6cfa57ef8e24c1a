"""Terms of availability: the moment from which points can be spent, or the event that they wait for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from domain.ledger.availability import (
    AT_ONCE,
    Availability,
    TermsOfAvailability,
    Wait,
    available_after_event,
    awaited_event,
)

MADRID = ZoneInfo("Europe/Madrid")
BOUGHT = datetime(2026, 3, 1, 9, tzinfo=UTC)
AWAITED = {"eventTypes": ["member-purchase-order-confirmed"], "cancelAfter": "P60D"}


@dataclass(frozen=True, kw_only=True)
class Request(TermsOfAvailability):
    """A request that has the fields of the terms of availability."""


def at(text):
    """The moment of a text such as 2026-03-01T09:00Z."""
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("terms", "bought_at", "available_at"),
    [
        (Availability(after="P14D"), "2026-03-01T09:00Z", "2026-03-15T09:00Z"),
        (Availability(after="P14D", rounding="day"), "2026-03-01T09:00Z", "2026-03-15T23:00Z"),
        # Clocks go forward on 29 March: 14 days keep the local time, and 336 hours do not.
        (Availability(after="P14D"), "2026-03-20T09:00Z", "2026-04-03T08:00Z"),
        (Availability(after="PT336H"), "2026-03-20T09:00Z", "2026-04-03T09:00Z"),
        # 23:00 in UTC is midnight in Madrid, so nothing is rounded; a second later the next midnight counts.
        (Availability(after="P14D", rounding="day"), "2026-03-01T23:00Z", "2026-03-15T23:00Z"),
        (Availability(after="P14D", rounding="day"), "2026-03-01T23:00:01Z", "2026-03-16T23:00Z"),
        (Availability(at=at("2026-03-10T00:00Z")), "2026-03-01T09:00Z", "2026-03-10T00:00Z"),
        # There is no midnight after the last day.
        (Availability(after="PT1H", rounding="day"), "9999-12-31T10:00Z", "9999-12-31T23:59:59.999999Z"),
        # The moment has passed: the points are available at once.
        (Availability(at=at("2026-02-10T00:00Z")), "2026-03-01T09:00Z", "2026-03-01T09:00Z"),
    ],
)
def test_the_terms_of_availability_decide_when_points_become_available(terms, bought_at, available_at):
    wait = terms.wait(at(bought_at), MADRID)
    assert (wait.available_at, wait.awaited, wait.cancelled_at) == (at(available_at), None, None)


def test_points_without_terms_do_not_wait():
    assert AT_ONCE.wait(BOUGHT, MADRID) is None
    assert Availability(rounding="none").wait(BOUGHT, MADRID) is None
    assert Availability.from_fields_of(Request(available_rounding="none")) is None
    assert Availability.from_fields_of(Request(available_after="P1D")) == Availability(after="P1D")


def test_points_wait_for_an_event_of_their_order_until_they_are_cancelled():
    wait = Availability(after="P14D", rounding="day", on=AWAITED).wait(BOUGHT, MADRID, "order-1")
    # BOUGHT is 10:00 in Madrid, and so is the end of the 60 days, when it is summer.
    assert (wait.available_at, wait.cancelled_at) == (None, at("2026-04-30T08:00Z"))
    assert wait.awaited == {
        **AWAITED,
        "availableAfter": "P14D",
        "availableRounding": "day",
        "orderExternalId": "order-1",
    }
    # 14 days after the event, and then the next midnight in Madrid.
    assert available_after_event(wait.awaited, at("2026-03-05T11:00Z"), MADRID) == at("2026-03-19T23:00Z")
    endless_wait = Availability(on={"eventTypes": ["a"]}).wait(BOUGHT, MADRID)
    assert (endless_wait.cancelled_at, endless_wait.awaited["orderExternalId"]) == (None, None)
    assert available_after_event(endless_wait.awaited, BOUGHT, MADRID) == BOUGHT
    assert awaited_event(wait.awaited) == AWAITED
    assert awaited_event({"eventTypes": ["a"]}) == {"eventTypes": ["a"], "cancelAfter": None}


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        (Availability(at=BOUGHT), []),
        (Availability(at=BOUGHT, rounding="none"), []),
        (Availability(after="P2Y", rounding="day"), []),
        (Availability(rounding="day", on=AWAITED), []),
        (
            Availability(at=BOUGHT, after="P1D", rounding="day", on=AWAITED),
            ["availableAfter", "availableRounding", "availableOn"],
        ),
        (Availability(rounding="day"), ["availableRounding"]),
        (Availability(after="P2Y1D"), ["availableAfter"]),
        (Availability(after="P1M700D"), []),
        (Availability(after="P1M701D"), ["availableAfter"]),
        # The maximum is two years, of which one may have a leap day. A month counts as 31 days.
        (Availability(after="P731D"), []),
        (Availability(after="P732D"), ["availableAfter"]),
        (Availability(after="a while"), ["availableAfter"]),
        (Availability(on={"eventTypes": []}), ["availableOn"]),
        (Availability(on={"eventTypes": [f"type-{number}" for number in range(21)]}), ["availableOn"]),
        (Availability(on={"eventTypes": [f"type-{number}" for number in range(20)]}), []),
        (Availability(on={"eventTypes": ["a", "a"]}), ["availableOn"]),
        (Availability(on={"eventTypes": [1]}), ["availableOn"]),
        (Availability(on={"eventTypes": "a"}), ["availableOn"]),
        (Availability(on={"eventTypes": ["a"], "until": "P1D"}), ["availableOn"]),
        (Availability(on={"eventTypes": ["points-available"]}), ["availableOn"]),
        (Availability(on={"eventTypes": ["a"], "cancelAfter": 3}), ["availableOn"]),
        (Availability(on={"eventTypes": ["a"], "cancelAfter": "P3Y"}), ["availableOn"]),
    ],
)
def test_contradictory_or_invalid_terms_have_faults(terms, names):
    """`names` are the fields with a fault; there are none in valid terms."""
    assert [name for name, _ in terms.faults()] == names
    assert [fault.pointer for fault in terms.field_faults("/terms")] == [f"/terms/{name}" for name in names]


def test_terms_are_read_back_unchanged_from_their_document():
    terms = Availability(at=BOUGHT, after="P1D", rounding="day", on=AWAITED)
    assert Availability.of(terms.as_document()) == terms
    assert AT_ONCE.as_document() == {"availableAt": None, "availableAfter": None, "availableRounding": "none"}
    assert Availability(on=AWAITED).event_types == AWAITED["eventTypes"]
    assert AT_ONCE.event_types == ()


def test_the_moment_of_a_wait_is_unknown_until_its_event_is_reported():
    assert Wait(available_at=BOUGHT).available_at_text == "2026-03-01T09:00:00Z"
    assert Wait(available_at=None, awaited=AWAITED).available_at_text is None
