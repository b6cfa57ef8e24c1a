"""The maximum of effects of a call holds for each call, also if several calls are one batch."""

from __future__ import annotations

from functools import partial

import pytest

from handlers.services.unit_of_work import unit
from tests.builders.campaigns import mint
from tests.builders.tracking import GENERIC, event, running
from tests.concurrency.test_batched_calls import call, event_counts_of_transactions, send_waiting_calls

pytestmark = pytest.mark.undistributed


def test_a_call_with_too_many_effects_changes_nothing(shop, monkeypatch):
    monkeypatch.setattr(unit, "MAX_EFFECTS", 5)
    shop.campaign(running(mint(1), mint(2)), eventType=GENERIC)
    ana = shop.member()
    # Three events with two effects each.
    reply = call(shop, *(event(ana) for _ in range(3)))
    assert (reply.status, reply.json["type"]) == (503, "/problems/deadline-exceeded")
    assert reply.json["detail"] == (
        "The events have more than 5 effects and missions, the maximum of a call. Nothing was changed. Send fewer "
        "events in a call."
    )
    assert (shop.balance(ana), event_counts_of_transactions(shop)) == (0, [])
    assert call(shop, event(ana), event(ana)).status == 200
    assert shop.balance(ana) == 2 * (1 + 2)


def test_calls_of_a_batch_do_not_share_the_maximum_of_effects(shop, monkeypatch):
    monkeypatch.setattr(unit, "MAX_EFFECTS", 5)
    shop.campaign(running(mint(1), mint(2)), eventType=GENERIC)
    members = [shop.member() for _ in range(4)]
    # Each call has four effects, two for each of its events.
    calls = [partial(call, shop, event(member), event(member)) for member in members]
    with send_waiting_calls(shop, calls) as futures:
        pass
    assert [future.result().status for future in futures] == [200] * 4
    assert [shop.balance(member) for member in members] == [2 * (1 + 2)] * 4
