"""Several workers of one queue: each event is evaluated once, and those of a member in the order of acceptance."""

from __future__ import annotations

import random
import threading
import time

import pytest
from sqlalchemy import text

from tests.builders.campaigns import effect, mint
from tests.builders.queue import drain_of, send, waiting
from tests.builders.tracking import GENERIC, event, order, running
from tests.concurrency.simultaneous import run_simultaneously


def check_order(shop, member_count):
    """Check that the events of each member were evaluated in the order in which they were accepted.

    Each mints one point, so the balance after the n-th event is n.
    """
    rows = shop.rows(
        "events e JOIN ledger_transactions t USING (organization_id, loyalty_event_id)"
        " JOIN ledger_entries n USING (organization_id, ledger_transaction_id)",
        "e.member_id, e.loyalty_event_id, n.updated_balance",
        order="e.member_id, e.loyalty_event_id, n.updated_balance",
    )
    member_balances = {}
    for member_id, _, balance in rows:
        if balance is not None:
            member_balances.setdefault(member_id, []).append(balance)
    assert len(member_balances) == member_count
    for balances in member_balances.values():
        assert balances == list(range(1, len(balances) + 1))


def drain_simultaneously(shop, workers, **settings):
    """Drain the queue with several workers, each until no event of the organization is left."""

    def work():
        drain = drain_of(shop, **settings)
        while waiting(shop):
            drain.step()

    run_simultaneously([work] * workers)


@pytest.mark.parametrize("batch_size", [1, 7, 100])
def test_workers_keep_the_order_of_each_member(shop, batch_size):
    shop.campaign(running(mint(1)), eventType=GENERIC)
    members = [shop.member() for _ in range(9)]
    pick = random.Random(batch_size)
    # Half of the events are about the first member.
    for _ in range(3):
        send(shop, *(event(pick.choice(members[: pick.choice([1, 9])])) for _ in range(50)))
    drain_simultaneously(shop, workers=4, queue_batch=batch_size)
    check_order(shop, len(members))
    assert len(shop.rows("ledger_transactions", "1")) == 3 * 50


def test_workers_keep_the_order_of_events_that_are_sent_while_they_work(shop):
    shop.campaign(running(mint(1)), eventType=GENERIC)
    members = [shop.member() for _ in range(3)]
    clients_are_done = threading.Event()

    def client(seed):
        pick = random.Random(seed)
        for _ in range(8):
            send(shop, *(event(pick.choice(members)) for _ in range(10)))

    def worker():
        drain = drain_of(shop, queue_batch=20)
        while not clients_are_done.is_set() or waiting(shop):
            if not drain.step():
                time.sleep(0.01)

    def clients():
        run_simultaneously([lambda s=seed: client(s) for seed in range(6)])
        clients_are_done.set()

    run_simultaneously([clients, worker, worker])
    # 6 clients with 8 batches of 10 events.
    assert len(shop.rows("ledger_transactions", "1")) == 6 * 8 * 10
    check_order(shop, len(members))


def test_workers_and_synchronous_events_share_a_limit_exactly(shop):
    shop.campaign(running(mint(1)), eventType=GENERIC, pointsMonthlyLimitPerMember=60)
    members = [shop.member() for _ in range(3)]
    # 40 queued and 30 synchronous events of each member, more than the limit of 60.
    for _ in range(4):
        send(shop, *(event(member) for member in members * 10))

    def track():
        for _ in range(10):
            shop.track(*(event(member) for member in members * 3))

    run_simultaneously([lambda: drain_simultaneously(shop, workers=2, queue_batch=10), track])
    assert [shop.balance(member) for member in members] == [60] * 3


def test_an_order_that_many_calls_queue_at_the_same_time_is_created_once(shop):
    shop.campaign(running(mint(1)))
    member = shop.member()
    purchase = order(member, 5)
    outcomes = run_simultaneously([lambda: send(shop, purchase)] * 8)
    assert len({outcome[0]["loyaltyEventKey"] for outcome in outcomes}) == 1
    drain_simultaneously(shop, workers=3)
    assert len(shop.rows("purchase_orders", "1")) == 1


def test_the_events_of_a_member_after_one_to_be_retried_wait_and_those_of_others_do_not(shop):
    shop.campaign(running(mint(1)), eventType=GENERIC)
    ana, bob = shop.member(), shop.member()
    send(shop, *(event(member) for member in (ana, bob) * 5))
    ana_id = shop.integration.get(f"/members/{ana}")["loyaltyMember"]["memberId"]
    # Ana's first event is to be retried in an hour.
    with shop.organization.api.engine.begin() as db:
        db.execute(
            text(
                "UPDATE queued_events SET attempts = 1, next_attempt_at = now() + interval '1 hour'"
                " WHERE member_id = :m AND place = (SELECT min(place) FROM queued_events WHERE member_id = :m)"
            ),
            {"m": ana_id},
        )
    drain = drain_of(shop)
    while drain.step():
        pass
    assert waiting(shop) == 5
    assert (shop.balance(ana), shop.balance(bob)) == (0, 5)


def test_no_event_is_evaluated_by_two_workers(shop):
    """Each event gives a discount, because a second mint would be prevented by its key in the ledger."""
    limit = {"scope": "member", "type": "transactions", "period": "total", "limit": 10**6}
    discount = effect("discount", type="percentage", value=5)
    shop.campaign(running(discount), eventType=GENERIC, limitRules=[limit])
    members = [shop.member() for _ in range(4)]
    for _ in range(6):
        send(shop, *(event(member) for member in members * 10))
    drain_simultaneously(shop, workers=4, queue_batch=10)
    assert [row.used for row in shop.rows("campaign_limit_counters", "used")] == [6 * 10] * 4
    assert {row.status for row in shop.rows("events", "status")} == {"success"}
