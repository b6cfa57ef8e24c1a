"""Points that wait for an event, which several calls and a worker make available or cancel at the same time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import event as listeners

from handlers.http import dispatch
from handlers.services.ledger.expire import expire_next
from persistence import organizations, transactions
from tests.builders.campaigns import mint
from tests.builders.statements import count
from tests.builders.tracking import ORDER_CREATED, order, order_update, running
from tests.concurrency.simultaneous import run_after, run_simultaneously

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
    """Track an order with each of these numbers, which mints 10 points that wait."""
    shop.track(*(order(member, 10, external_id=f"order-{number}") for number in numbers))


def balance_and_pending(shop, member):
    """The available and the waiting points of a member."""
    [balance] = shop.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerBalances"]
    return balance["balance"], balance["pending"]


def run_worker(engine, shop, moment):
    """Run one step of the worker as at a moment; return what has expired, or None if there was nothing to do."""
    find = partial(organizations.find, organization_id=shop.organization.id)
    return transactions.run(engine, lambda db: expire_next(db, find(db), after=0, now=moment))


def payloads(shop, field):
    """The payloads of all events that have a field, in the order of the events."""
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
    # No mint is reported as available twice.
    ids = [lot["ledgerTransactionId"] for payload in payloads(shop, "availableAt") for lot in payload["lots"]]
    assert len(ids) == len(set(ids))


def test_either_a_confirmation_or_the_worker_settles_each_mint(busy_api, shop, member):
    buy(shop, member, range(10))
    # Points that are not confirmed within a day are cancelled.
    later = datetime.now(UTC) + timedelta(days=2)
    confirmations = [partial(shop.track, order_update(member, f"order-{number}", "confirmed")) for number in range(10)]
    run_simultaneously([*confirmations, partial(run_worker, busy_api.engine, shop, later)])
    run_worker(busy_api.engine, shop, later)
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
    statement_count = count(engine, lambda: run_worker(engine, shop, later))
    buy(shop, other_member, range(3, 6))
    for kill in range(KILLS):
        # The kills are spread over the statements of the step.
        kill_worker_after(engine, shop, later, statement_count * (kill + 1) // (KILLS + 1))
        assert len(payloads(shop, "cancelledAt")) == 1
        assert balance_and_pending(shop, other_member) == (0, 3 * 10)
    run_worker(engine, shop, later)
    assert run_worker(engine, shop, later) is None
    assert [payload["amount"] for payload in payloads(shop, "cancelledAt")] == [3 * 10, 3 * 10]
    assert balance_and_pending(shop, member) == balance_and_pending(shop, other_member) == (0, 0)


def kill_worker_after(engine, shop, moment, statement_count):
    """Run one step of the worker, which is killed after so many statements, so that its transaction is rolled back."""
    remaining = [statement_count]

    def kill(*args):
        remaining[0] -= 1
        if remaining[0] < 0:
            raise Killed

    listeners.listen(engine, "before_cursor_execute", kill)
    try:
        with pytest.raises(Killed):
            run_worker(engine, shop, moment)
    finally:
        listeners.remove(engine, "before_cursor_execute", kill)


def test_a_confirmation_confirms_the_first_points_of_the_organization_that_wait(shop, member, monkeypatch):
    # The confirmation has read the organization before any of its points wait.
    run_after(monkeypatch, dispatch, "_admit", lambda: buy(shop, member, [1]))
    shop.track_one(order_update(member, "order-1", "confirmed"))
    assert balance_and_pending(shop, member) == (10, 0)
