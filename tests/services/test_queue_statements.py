"""Statements of the queue: the same number for 1 event and for many."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.builders.api import running_api
from tests.builders.campaigns import mint
from tests.builders.queue import drain, drain_of, send, waiting
from tests.builders.statements import count
from tests.builders.tracking import Shop, order, running


@pytest.fixture(scope="module")
def shop(settings):
    with running_api(replace(settings, max_body_bytes=10_000_000)) as api:
        shop = Shop(api.organization())
        shop.campaign(running(mint(3)), pointsMonthlyLimitPerMember=10**9)
        yield shop


@pytest.mark.slow
def test_queueing_costs_as_many_statements_for_1_event_as_for_500(shop):
    members = [shop.member() for _ in range(20)]

    def batch(size):
        return [order(members[i % 20], 5, items=[{}]) for i in range(size)]

    send(shop, *batch(1))
    counts = {size: count(shop.organization.api.engine, lambda s=size: send(shop, *batch(s))) for size in (1, 20, 500)}
    assert len(set(counts.values())) == 1
    assert counts[500] <= 8
    drain(shop)


@pytest.mark.slow
@pytest.mark.parametrize("spread", ["one member", "many members"])
def test_a_batch_costs_as_many_statements_for_1_event_as_for_100(shop, spread):
    members = [shop.member() for _ in range(1 if spread == "one member" else 100)]
    counts = {}
    drain(shop)
    for size in (1, 100):
        send(shop, *(order(members[i % len(members)], 5, items=[{}]) for i in range(size)))
        counts[size] = count(shop.organization.api.engine, drain_of(shop, queue_batch=100).step)
        assert waiting(shop) == 0
    # The number for one batch of one organization.
    assert counts[1] == counts[100]
    assert counts[100] < 40
