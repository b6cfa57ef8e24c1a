"""Queued events are evaluated at once, also if the clock of a server, of a worker or of the database is wrong."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import text

from handlers.http import dispatch
from handlers.services.events import drain_queue
from tests.builders.clock import Clock
from tests.builders.queue import drain, send, waiting
from tests.builders.tracking import Shop, event


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture(params=[timedelta(hours=1), timedelta(hours=-1)], ids=["ahead", "behind"])
def wrong_clock(request):
    """A clock that is an hour ahead, or behind."""
    clock = Clock()
    clock.ahead = request.param
    return clock


def test_events_of_a_server_with_a_wrong_clock_are_evaluated_at_once(shop, wrong_clock, monkeypatch):
    member = shop.member()
    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "datetime", wrong_clock)
        send(shop, event(member))
    drain(shop)
    assert waiting(shop) == 0


def test_events_queued_while_the_clock_of_the_database_was_ahead_are_evaluated_at_once(shop):
    send(shop, event(shop.member()))
    with shop.organization.api.engine.begin() as db:
        statement = text(
            "UPDATE queued_events SET next_attempt_at = now() + interval '1 hour' WHERE organization_id = :o"
        )
        db.execute(statement, {"o": shop.organization.id})
    drain(shop)
    assert waiting(shop) == 0


def test_a_worker_with_a_wrong_clock_evaluates_due_events(shop, wrong_clock, monkeypatch):
    send(shop, event(shop.member()))
    monkeypatch.setattr(drain_queue, "datetime", wrong_clock)
    drain(shop)
    assert waiting(shop) == 0
