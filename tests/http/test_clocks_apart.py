"""Clocks that are wrong: nothing that is due waits until they are right."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from handlers.http import dispatch
from handlers.services.events import drain_queue
from handlers.services.webhooks import send_deliveries
from handlers.services.webhooks.post_message import Poster
from tests.builders.api import running_api
from tests.builders.clock import Clock
from tests.builders.queue import drain, send, waiting
from tests.builders.receivers import receiver, status
from tests.builders.tracking import GENERIC, Shop, event
from tests.builders.triggers import add_trigger, deliveries


@pytest.fixture(scope="module")
def api(settings):
    with running_api(
        replace(settings, webhook_allow_http=True, webhook_allow_private=True, webhook_ports="any")
    ) as api:
        yield api


@pytest.fixture
def shop(api):
    return Shop(api.organization())


@pytest.fixture(params=[timedelta(hours=1), timedelta(hours=-1)], ids=["ahead", "behind"])
def wrong(request):
    """A clock that is an hour ahead, or behind."""
    clock = Clock()
    clock.ahead = request.param
    return clock


def test_events_of_a_server_with_a_wrong_clock_are_evaluated_at_once(shop, wrong, monkeypatch):
    member = shop.member()
    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "datetime", wrong)
        send(shop, event(member))
    drain(shop)
    assert waiting(shop) == 0


def test_events_queued_while_the_database_was_ahead_are_evaluated_at_once(shop):
    send(shop, event(shop.member()))
    with shop.organization.api.engine.begin() as db:
        ahead = text("UPDATE queued_events SET next_attempt_at = now() + interval '1 hour' WHERE organization_id = :o")
        db.execute(ahead, {"o": shop.organization.id})
    drain(shop)
    assert waiting(shop) == 0


def test_a_worker_with_a_wrong_clock_evaluates_what_is_due(shop, wrong, monkeypatch):
    send(shop, event(shop.member()))
    monkeypatch.setattr(drain_queue, "datetime", wrong)
    drain(shop)
    assert waiting(shop) == 0


def test_messages_are_sent_at_once_and_again_by_the_schedule(shop, wrong, monkeypatch):
    poster = Poster(http_allowed=True, private_allowed=True, seconds=2.0)
    sender = send_deliveries.Sender(
        shop.organization.api.engine, shop.organization.api.settings, poster, shop.organization.id
    )
    member = shop.member()
    with receiver() as there:
        there.usual = status(500)
        trigger = add_trigger(shop.administration, "WebHook", url=there.url, eventTypes=[GENERIC])
        with monkeypatch.context() as patch:
            patch.setattr(dispatch, "datetime", wrong)
            shop.track(event(member))
        with monkeypatch.context() as patch:
            patch.setattr(send_deliveries, "datetime", wrong)
            assert sender.send_due() == 1
            assert sender.send_due() == 0
        [delivery] = deliveries(shop.administration, trigger)
        [row] = shop.rows("trigger_deliveries", "next_attempt_at - now() AS wait")
    assert delivery["status"] == "pending"
    assert timedelta() < row.wait < timedelta(minutes=1)
