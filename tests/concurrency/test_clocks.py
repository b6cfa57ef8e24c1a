"""Test clocks that many calls advance at the same time, and advances that are interrupted."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from handlers.server.jobs import evaluate_tiers, expire_points
from handlers.services.events import drain_queue
from handlers.services.events.drain_queue import Drain
from handlers.services.events.evaluate_queued import evaluate_claimed
from handlers.services.members import enrol
from handlers.services.organizations import test_clock as service
from persistence import test_clocks, transactions
from persistence.engine import create_engine
from tests.builders.campaigns import mint
from tests.builders.points import Points
from tests.builders.queue import send
from tests.builders.test_clocks import Clock
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import Shop, event, running
from tests.concurrency.simultaneous import run_simultaneously
from tests.processes.fleet import disposed

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
DAYS = 20
IS_GENERIC = "event.eventType == 'member-generic-event'"
EXPIRIES = "SELECT created_at, amount FROM ledger_transactions WHERE organization_id = :o AND is_expiry ORDER BY 1"


@pytest.fixture
def clock(busy_api, monkeypatch):
    """A clock whose advances end within their call, also on a slow machine."""
    monkeypatch.setattr(service, "CALL_SECONDS", 60.0)
    return Clock.new(busy_api, starts_at=START.isoformat())


@pytest.fixture
def points(clock):
    """An account in which a point expires each day at noon."""
    points = Points.new(clock.organization, expiresInMonths=12, pointTrackingEnabled=True)
    wallet = points.wallet()
    for day in range(DAYS):
        points.mint(wallet, 1, expires_at=START.replace(hour=12) + timedelta(days=day))
    return points


@contextmanager
def impatient_engine(api):
    """An engine that does not wait long for locks."""
    with disposed(create_engine(api.settings.database_url, threads=3, lock_timeout_ms=50)) as engine:
        yield engine


def expire_points_after(organization, months):
    """Let the points of members expire after some months."""
    defaults = organization.defaults
    account = f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}"
    body = {"alias": "points", "name": "Points", "active": True, "decimals": 0, "formatString": None}
    settings = {"isRevolving": False, "chainSyncEnabled": False, "expiresInMonths": months}
    organization.administration.put(account, {**body, **settings})


def expiries(clock):
    """The moment and the amount of each expiry, in their order."""
    with clock.organization.api.engine.connect() as db:
        return [tuple(row) for row in db.execute(text(EXPIRIES), {"o": clock.organization.id})]


def test_advances_to_one_moment_at_the_same_time_count_as_one(clock, points):
    to = (START + timedelta(days=DAYS)).isoformat()
    run_simultaneously([lambda: clock.advance(to) for _ in range(20)])
    test_clock = clock.get()
    # A step for the expiry of each day.
    assert (test_clock["status"], test_clock["steps"]) == ("ready", DAYS)
    assert datetime.fromisoformat(test_clock["now"]) == START + timedelta(days=DAYS)
    assert expiries(clock) == [(START.replace(hour=12) + timedelta(days=day), 1) for day in range(DAYS)]
    assert clock.organization.administration.get("/audit-log", operationId="advanceTestClock")["totalCount"] == 1


def test_a_step_waits_for_a_step_of_another_process(clock, points, busy_api, monkeypatch):
    to = (START + timedelta(days=DAYS)).isoformat()
    monkeypatch.setattr(service, "CALL_SECONDS", 0)
    clock.advance(to)
    with impatient_engine(busy_api) as engine, engine.connect() as other_connection:
        # The other process holds the clock for a step.
        test_clocks.take(other_connection, clock.organization.id)
        assert clock.advance(to)["status"] == "advancing"
        end = time.monotonic() + 1
        advance = service.advance_clock(
            engine, busy_api.settings, clock.organization.id, lambda: time.monotonic() >= end
        ).test_clock
        assert (advance.status, advance.steps) == ("advancing", 0)
        # The step of the other process ends.
        other_connection.rollback()
        advance = service.advance_clock(engine, busy_api.settings, clock.organization.id, lambda: False).test_clock
    assert (advance.status, advance.steps) == ("ready", DAYS)


def test_an_advance_waits_until_queued_events_are_evaluated(clock, busy_api, monkeypatch):
    shop, to = Shop(clock.organization), START + timedelta(days=400)
    expire_points_after(clock.organization, 12)
    shop.campaign(running(mint(7), rule=IS_GENERIC))
    member = shop.member()
    send(shop, event(member))
    monkeypatch.setattr(service, "CALL_SECONDS", 0)
    clock.advance(to.isoformat())
    event_is_claimed, go = threading.Event(), threading.Event()

    def evaluate_late(*arguments):
        event_is_claimed.set()
        assert go.wait(60)
        evaluate_claimed(*arguments)

    def advance():
        return service.advance_clock(busy_api.engine, busy_api.settings, clock.organization.id, lambda: False)

    monkeypatch.setattr(drain_queue, "evaluate_claimed", evaluate_late)
    with ThreadPoolExecutor() as pool:
        first_advance = pool.submit(advance)
        assert event_is_claimed.wait(60)
        second_advance = pool.submit(advance)
        time.sleep(0.5)
        assert not second_advance.done()
        assert clock.get()["now"] == "2026-03-01T09:00:00Z"
        go.set()
        assert first_advance.result().test_clock.status == second_advance.result().test_clock.status == "ready"
    assert clock.get()["steps"] == 1
    # The points of the queued event were minted at START, and expired 12 months later.
    assert expiries(clock) == [(START.replace(year=2027), 7)]


def test_postings_during_advances_are_dated_in_order_and_expiries_at_their_own_moment(busy_api):
    clock = Clock.new(busy_api, starts_at=START.isoformat(), timezone="UTC")
    organization, shop, chance = clock.organization, Shop(clock.organization), random.Random(1)
    expire_points_after(organization, 1)
    TierSchedule.new(shop, policy={"basis": "earned", "period": "rolling", "months": 2}, Gold=30)
    shop.campaign(running(mint(10), rule=IS_GENERIC))
    members = [shop.member() for _ in range(8)]
    drain = Drain(busy_api.engine, busy_api.settings)
    moments = [START + timedelta(days=20 * n, seconds=n) for n in range(1, 6)]
    is_over, statuses = threading.Event(), Counter()

    def post(surface, path, body):
        reply = surface.request("POST", path, body)
        statuses[reply.status] += 1
        return reply

    def track(path):
        post(shop.integration, path, {"events": [event(member) for member in chance.sample(members, 3)]})

    def do_jobs():
        expire_points(busy_api.engine, organization.id)
        evaluate_tiers(busy_api.engine, organization.id)

    def advance():
        for moment in moments:
            body = {"to": moment.isoformat()}
            while post(shop.administration, "/test-clock/advance", body).json["testClock"]["status"] != "ready":
                pass
            time.sleep(0.1)
        is_over.set()

    def repeat(do):
        while not is_over.is_set():
            do()
            time.sleep(0.02)

    work = (
        lambda: track("/events/track"),
        lambda: track("/events/track-async"),
        drain.step,
        do_jobs,
        lambda: service.advance_clocks(busy_api.engine, busy_api.settings, is_over.is_set),
    )
    run_simultaneously([advance, *(lambda do=do: repeat(do) for do in work)])
    while drain.step():
        pass
    # Calls during an advance are refused with 409; 202 is the response for queued events.
    assert set(statuses) == {200, 202, 409}
    shop.check_ledger()
    transaction_rows = shop.rows("ledger_transactions", "created_at, is_expiry", order="ledger_transaction_id")
    moments_of_transactions = [row.created_at for row in transaction_rows]
    assert moments_of_transactions == sorted(moments_of_transactions)
    expiry_moments = {row.created_at for row in transaction_rows if row.is_expiry}
    assert expiry_moments
    assert expiry_moments <= {row.expires_at for row in shop.rows("ledger_lots", "expires_at")}


def test_only_one_of_many_calls_starts_the_clock(busy_api, monkeypatch):
    administration = busy_api.organization(environment="test").administration
    lost_races = []
    monkeypatch.setattr(transactions, "is_retryable", lost_races.append)
    body = {"startsAt": START.isoformat()}
    replies = run_simultaneously([lambda: administration.request("POST", "/test-clock", body) for _ in range(12)])
    assert sorted(reply.status for reply in replies) == [201] + [409] * 11
    assert {reply.json["type"] for reply in replies if reply.status == 409} == {"/problems/test-clock-exists"}
    assert lost_races == []


def test_the_start_of_a_clock_waits_for_an_enrolment_and_sees_its_member(busy_api, monkeypatch):
    clock = Clock(busy_api.organization(environment="test"))
    member_is_written, go = threading.Event(), threading.Event()
    enrol_members = enrol.enrol_members

    def enrol_slowly(*arguments):
        result = enrol_members(*arguments)
        member_is_written.set()
        assert go.wait(60)
        return result

    monkeypatch.setattr(enrol, "enrol_members", enrol_slowly)
    with ThreadPoolExecutor() as pool:
        member = pool.submit(clock.organization.member)
        assert member_is_written.wait(60)
        # If the start did not wait, it would not see the member, which is newer than START but not committed yet.
        refusal = pool.submit(clock.start, expect=409, startsAt=START.isoformat())
        time.sleep(0.2)
        go.set()
        assert datetime.fromisoformat(member.result()["createdAt"]) > START
        assert refusal.result()["type"] == "/problems/test-clock-backwards"


def test_events_tracked_during_an_advance_are_refused_or_dated_at_its_start_or_its_end(clock, points):
    organization = clock.organization
    organization.member("ana")
    to = START + timedelta(days=DAYS)
    bodies = [{"events": [event("ana", systemUniqueKey=f"key-{n}")]} for n in range(12)]

    def track(body):
        return organization.integration.request("POST", "/events/track", body).status

    *statuses, _test_clock = run_simultaneously(
        [*(lambda body=body: track(body) for body in bodies), lambda: clock.advance(to.isoformat())]
    )
    assert set(statuses) <= {200, 409}
    events = organization.integration.get("/members/ana/events", eventType="member-generic-event")["results"]
    assert len(events) == statuses.count(200)
    assert {datetime.fromisoformat(record["createdAt"]) for record in events} <= {START, to}


def test_an_interrupted_advance_continues_at_its_last_step(clock, points, monkeypatch, busy_api):
    to = (START + timedelta(days=DAYS)).isoformat()
    monkeypatch.setattr(service, "CALL_SECONDS", 0)
    clock.advance(to)
    # The advance is interrupted when it asks the eighth time whether it should stop.
    should_stop = iter([False] * 7)
    service.advance_clock(busy_api.engine, busy_api.settings, clock.organization.id, lambda: next(should_stop, True))
    interrupted_advance = clock.get()
    assert (interrupted_advance["status"], interrupted_advance["steps"]) == ("advancing", len(expiries(clock)))
    assert 0 < interrupted_advance["steps"] < DAYS
    moment_of_last_expiry, _amount = expiries(clock)[-1]
    assert datetime.fromisoformat(interrupted_advance["now"]) == moment_of_last_expiry
    service.advance_clock(busy_api.engine, busy_api.settings, clock.organization.id, lambda: False)
    assert (clock.get()["status"], clock.get()["steps"]) == ("ready", DAYS)
