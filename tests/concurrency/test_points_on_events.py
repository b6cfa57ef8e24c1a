"""Points that wait for an event, which several calls and a worker make available or cancel at the same time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import event as listeners

from handlers.services.ledger.expire import expire_next
from persistence import organizations, transactions
from tests.builders.campaigns import mint
from tests.builders.statements import count
from tests.builders.tracking import ORDER_CREATED, order, order_update, running
from tests.concurrency.simultaneous import run_simultaneously

CONFIRMED = "member-purchase-order-confirmed"
KILLS = 5


class Killed(Exception):
    """The exception that ends the worker as a kill of its process would."""


@pytest.fixture
def member(shop):
    """A member of a shop whose orders mint points that are available when the order is confirmed."""
    effect = mint(("=", "floor(order.total)"), availableOn={"eventTypes": [CONFIRMED], "cancelAfter": "P1D"})
    shop.campaign(running(effect), eventType=ORDER_CREATED)
    return shop.member()


def buy(shop, member, numbers):
    shop.track(*(order(member, 10, external_id=f"order-{number}") for number in numbers))


def balance_and_pending(shop, member):
    [balance] = shop.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerBalances"]
    return balance["balance"], balance["pending"]


def work(engine, shop, moment):
    """Run one step of the worker as at a moment."""
    find = partial(organizations.find, organization_id=shop.organization.id)
    return transactions.run(engine, lambda db: expire_next(db, find(db), 0, moment))


def payloads(shop, field):
    stored_payloads = [row[0] or {} for row in shop.rows("events", "payload", order="loyalty_event_id")]
    return [payload for payload in stored_payloads if field in payload]


def test_a_confirmation_and_a_cancellation_at_the_same_time_leave_no_points(shop, member):
    buy(shop, member, range(10))
    calls = [
        partial(shop.track, order_update(member, f"order-{number}", status))
        for number in range(10)
        for status in ("confirmed", "cancelled")
    ]
    run_simultaneously(calls)
    assert [row[0] for row in shop.rows("purchase_orders", "status")] == ["cancelled"] * 10
    assert balance_and_pending(shop, member) == (0, 0)
    ids = [lot["ledgerTransactionId"] for payload in payloads(shop, "availableAt") for lot in payload["lots"]]
    assert len(ids) == len(set(ids))


def test_either_a_confirmation_or_the_worker_settles_each_mint(busy_api, shop, member):
    buy(shop, member, range(10))
    later = datetime.now(UTC) + timedelta(days=2)
    confirmations = [partial(shop.track, order_update(member, f"order-{number}", "confirmed")) for number in range(10)]
    run_simultaneously([*confirmations, partial(work, busy_api.engine, shop, later)])
    work(busy_api.engine, shop, later)
    available_lots = [lot for payload in payloads(shop, "availableAt") for lot in payload["lots"]]
    cancelled_lots = [lot for payload in payloads(shop, "cancelledAt") for lot in payload["lots"]]
    ids = [lot["ledgerTransactionId"] for lot in (*available_lots, *cancelled_lots)]
    assert len(ids) == len(set(ids)) == 10
    assert balance_and_pending(shop, member) == (10 * len(available_lots), 0)


def test_a_worker_that_is_killed_reports_each_cancellation_once(busy_api, shop, member):
    engine, later = busy_api.engine, datetime.now(UTC) + timedelta(days=2)
    other_member = shop.member()
    buy(shop, member, range(3))
    # The statements of one step are counted with the points of the first member.
    total = count(engine, lambda: work(engine, shop, later))
    buy(shop, other_member, range(3, 6))
    for kill in range(KILLS):
        _work_until(engine, shop, later, total * (kill + 1) // (KILLS + 1))
        assert len(payloads(shop, "cancelledAt")) == 1
        assert balance_and_pending(shop, other_member) == (0, 30)
    work(engine, shop, later)
    assert work(engine, shop, later) is None
    assert [payload["amount"] for payload in payloads(shop, "cancelledAt")] == [30, 30]
    assert (balance_and_pending(shop, member), balance_and_pending(shop, other_member)) == ((0, 0), (0, 0))


def _work_until(engine, shop, moment, last):
    """Run one step of the worker, which is killed at a statement, so that its transaction is rolled back."""
    remaining = [last]

    def kill(*args):
        remaining[0] -= 1
        if remaining[0] < 0:
            raise Killed

    listeners.listen(engine, "before_cursor_execute", kill)
    try:
        with pytest.raises(Killed):
            work(engine, shop, moment)
    finally:
        listeners.remove(engine, "before_cursor_execute", kill)
