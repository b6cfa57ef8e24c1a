"""kill -9 of workers and of the database while events are evaluated: each event has its effects once."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from handlers.settings import Settings
from persistence import embedded
from persistence.engine import create_engine
from tests.builders.api import running_api
from tests.builders.tracking import WHOLE_DOLLARS, Shop, order, running
from tests.processes.fleet import WAITING, Workers, disposed, fetch_value, kill_database, verify_all, wait_until

FAST = {"fsync": "off"}
EVENTS_PER_CALL = 500
# Lets each statement that stores orders take five seconds.
SLOW_ORDERS = """
CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(5); RETURN NULL; END';
CREATE TRIGGER sleep BEFORE INSERT ON purchase_orders EXECUTE FUNCTION sleep()
"""


def send_all(shop: Shop, events: list) -> None:
    """Queue the events in their order; a batch that gets 503 is sent again."""
    for start in range(0, len(events), EVENTS_PER_CALL):
        body = {"events": events[start : start + EVENTS_PER_CALL]}
        reply = shop.integration.request("POST", "/events/track-async", body)
        while reply.status != 202:
            assert reply.status == 503, reply.text
            time.sleep(0.2)
            reply = shop.integration.request("POST", "/events/track-async", body)
        assert {result["outcome"] for result in reply.json["results"]} == {"queued"}


@contextmanager
def shop_of(home: Path, url: str) -> Iterator[Shop]:
    """An organization with a point per dollar, on a server in this process."""
    settings = Settings(database_url=url, home=home, max_body_bytes=10_000_000)
    with running_api(settings) as api:
        shop = Shop(api.organization())
        shop.campaign(running(WHOLE_DOLLARS), eventType="member-purchase-order-created")
        yield shop


def check_effects(shop: Shop, events: list) -> None:
    """Check that every event, and no other, was evaluated once, in its member's order, with all its effects."""
    event_rows = shop.rows("events", "system_unique_key, status, e2e_tracking_id")
    keys = {event["systemUniqueKey"] for event in events}
    assert {row.system_unique_key for row in event_rows if row.status == "success"} >= keys
    assert {row.status for row in event_rows} == {"success"}
    entries = shop.rows(
        "events e JOIN ledger_transactions t USING (organization_id, loyalty_event_id)"
        " JOIN ledger_entries n USING (organization_id, ledger_transaction_id)",
        "e.member_id, e.system_unique_key, n.updated_balance",
        order="e.member_id, e.loyalty_event_id",
    )
    # The other entry of each mint is that of the account, which has no balance.
    member_entries = [entry for entry in entries if entry.updated_balance is not None]
    assert len(member_entries) == len(events)
    assert {entry.system_unique_key for entry in member_entries} == keys
    balances_by_member: dict[int, list] = {}
    for entry in member_entries:
        balances_by_member.setdefault(entry.member_id, []).append(entry.updated_balance)
    # Each event minted 1 point, so a member's balances are 1, 2, 3 ... in the order of the events.
    for balances in balances_by_member.values():
        assert balances == list(range(1, len(balances) + 1))
    order_ids = {event["payload"]["order"]["externalId"] for event in events}
    assert sorted(row.external_id for row in shop.rows("purchase_orders", "external_id")) == sorted(order_ids)
    with shop.organization.api.engine.connect() as db:
        assert verify_all(db) == []


@pytest.mark.parametrize(
    ("event_count", "member_count", "worker_kills", "database_kills"),
    [
        pytest.param(600, 20, 1, 1, id="600 events"),
        pytest.param(100_000, 500, 30, 6, id="100,000 events", marks=pytest.mark.stress),
    ],
)
def test_each_event_has_its_effects_once_even_if_workers_and_the_database_are_killed(
    home, event_count, member_count, worker_kills, database_kills
):
    pick = random.Random(event_count)
    with ExitStack() as stack:
        url = stack.enter_context(embedded.server(home, options=FAST))
        shop = stack.enter_context(shop_of(home, url))
        customers = [shop.member() for _ in range(member_count)]
        events = [order(pick.choice(customers), 1) for _ in range(event_count)]
        kills = ["worker"] * worker_kills + ["database"] * database_kills
        pick.shuffle(kills)
        share = event_count // (len(kills) + 1)
        workers = Workers(home, 2)
        stack.callback(workers.kill)
        observer = stack.enter_context(disposed(create_engine(url, threads=1)))
        with ThreadPoolExecutor(1) as pool:
            # Each kill has its own share of the events, so that no kill comes after the last event.
            waiting_at_kills: list[int] = []
            for number, kill in enumerate(kills):
                sender = pool.submit(send_all, shop, events[number * share : (number + 1) * share])
                wait_until(lambda n=number: count_orders(observer) >= n * share + share // 4)
                assert count_orders(observer) < event_count
                waiting_at_kills.append(fetch_value(observer, WAITING))
                if kill == "worker":
                    workers.kill_one(pick)
                else:
                    kill_database(home)
                    # The next process starts it again; workers and server reconnect.
                    stack.enter_context(embedded.server(home, options=FAST))
                sender.result()
        assert any(waiting_at_kills)  # at least one kill came while events were waiting
        send_all(shop, events[len(kills) * share :])
        wait_until(lambda: fetch_value(observer, WAITING) == 0)
        workers.stop()
        shop.organization.api.engine.dispose()  # its connections were lost with the killed database
        check_effects(shop, events)


def count_orders(engine) -> int:
    """The number of stored orders, which is that of the evaluated events."""
    return fetch_value(engine, "SELECT count(*) FROM purchase_orders")


def test_a_worker_that_is_stopped_completes_its_batch(home):
    with ExitStack() as stack:
        url = stack.enter_context(embedded.server(home, options=FAST))
        shop = stack.enter_context(shop_of(home, url))
        member = shop.member()
        send_all(shop, [order(member, 1) for _ in range(20)])
        observer = stack.enter_context(disposed(create_engine(url, threads=1)))
        with observer.begin() as db:
            db.execute(text(SLOW_ORDERS))
        workers = Workers(home, 1)
        stack.callback(workers.kill)
        wait_until(lambda: fetch_value(observer, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"))
        with ThreadPoolExecutor(1) as pool:
            stopping = pool.submit(workers.stop)
            time.sleep(1)
            assert not stopping.done()
            assert fetch_value(observer, WAITING) == 20
            assert stopping.result() == [0]
        assert fetch_value(observer, WAITING) == 0
        # A point for each of the 20 orders of a dollar.
        assert shop.balance(member) == 20
