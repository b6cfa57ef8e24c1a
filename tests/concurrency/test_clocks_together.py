"""Test clocks that are advanced by many at once, and by nobody to the end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from handlers.services.organizations import test_clock as service
from tests.builders.points import Points
from tests.builders.test_clocks import Clock
from tests.builders.tracking import event
from tests.concurrency.together import together

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
DAYS = 40
EXPIRIES = "SELECT created_at, amount FROM ledger_transactions WHERE organization_id = :o AND is_expiry ORDER BY 1"


@pytest.fixture
def clock(busy_api):
    return Clock.new(busy_api, START.isoformat())


@pytest.fixture
def points(clock):
    """An account in which a point expires each day at noon."""
    points = Points.new(clock.organization, expiresInMonths=12, pointTrackingEnabled=True)
    wallet = points.wallet()
    for day in range(DAYS):
        points.mint(wallet, 1, START.replace(hour=12) + timedelta(days=day))
    return points


def expiries(clock):
    with clock.organization.api.engine.connect() as db:
        return [tuple(row) for row in db.execute(text(EXPIRIES), {"o": clock.organization.id})]


def test_advances_to_one_moment_at_once_are_one(clock, points):
    to = (START + timedelta(days=DAYS)).isoformat()
    together([lambda: clock.advance(to) for _ in range(20)])
    shown = clock.get()
    assert (shown["status"], shown["steps"]) == ("ready", DAYS)
    assert datetime.fromisoformat(shown["now"]) == START + timedelta(days=DAYS)
    assert expiries(clock) == [(START.replace(hour=12) + timedelta(days=day), 1) for day in range(DAYS)]


def test_what_is_written_meanwhile_is_refused_or_dated_before_or_after_it(clock, points):
    organization = clock.organization
    organization.member("ana")
    to = START + timedelta(days=DAYS)
    body = [{"events": [event("ana", systemUniqueKey=f"key-{n}")]} for n in range(12)]

    def track(n):
        return organization.integration.request("POST", "/events/track", body[n]).status

    *statuses, _ = together([*(lambda n=n: track(n) for n in range(12)), lambda: clock.advance(to.isoformat())])
    assert set(statuses) <= {200, 409}
    events = organization.integration.get("/members/ana/events", eventType="member-generic-event")["results"]
    assert len(events) == statuses.count(200)
    assert {datetime.fromisoformat(found["createdAt"]) for found in events} <= {START, to}


def test_an_advance_that_was_begun_goes_on_where_it_was(clock, points, monkeypatch, busy_api):
    steps = iter(range(7))
    to = (START + timedelta(days=DAYS)).isoformat()
    monkeypatch.setattr(service, "CALL_SECONDS", 0)
    clock.advance(to)
    service.advance_clock(busy_api.engine, busy_api.settings, clock.organization.id, lambda: next(steps, None) is None)
    begun = clock.get()
    assert (begun["status"], begun["steps"]) == ("advancing", len(expiries(clock)))
    assert 0 < begun["steps"] < DAYS
    assert datetime.fromisoformat(begun["now"]) == expiries(clock)[-1][0]
    monkeypatch.undo()
    assert clock.advance(to)["steps"] == DAYS
