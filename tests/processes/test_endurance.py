"""All failures together: repeated calls, a receiver that fails, and kill -9 of workers, servers, receiver and database.

Still each event has its effects once and in its member's order, and each message arrives.
"""

from __future__ import annotations

import random
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.processes.besieged import CLIENTS, CURE, HAS_QUEUED_EVENTS, TRIGGER_TYPES, Api, World, messages_due_early
from tests.processes.fleet import WAITING, fetch_value, wait_until
from tests.processes.loyalty import loyalty
from tests.processes.moody_receiver import RECEIVED
from tests.processes.plain_model import Model, new_event

MOVEMENTS = """
SELECT e.system_unique_key, e.status, count(*) OVER (PARTITION BY e.system_unique_key),
    coalesce((
        SELECT array_agg(n.updated_balance::integer ORDER BY n.ledger_transaction_id, n.entry_index)
        FROM ledger_transactions t JOIN ledger_entries n USING (organization_id, ledger_transaction_id)
        WHERE t.organization_id = e.organization_id AND t.loyalty_event_id = e.loyalty_event_id
            AND n.wallet_id IS NOT NULL
    ), '{}')
FROM events e
WHERE e.event_type <> 'member-created'
"""
KEYS = "SELECT loyalty_event_key::text FROM events WHERE event_type <> 'member-created'"
BALANCES = """
SELECT m.loyalty_member_id, coalesce(sum(b.current_balance), 0)::integer
FROM members m LEFT JOIN ledger_balances b USING (organization_id, wallet_id) GROUP BY 1
"""
BONUSES = """
SELECT m.loyalty_member_id, c.used::integer
FROM campaign_limit_counters c JOIN members m USING (organization_id, member_id)
"""


@dataclass
class Client:
    """A client that queues the events of some members, in their order, and sends every tenth call twice."""

    api: Api
    events: Sequence[Mapping[str, Any]]
    events_per_call: int
    calls: int = 0
    repeats: int = 0

    def send(self, share: float, wait_for: Callable[[float], None] = lambda share_sent: None) -> None:
        """Send until this share of the events is sent; `wait_for` gets the share sent so far before each call."""
        while (start := self.calls * self.events_per_call) < share * len(self.events):
            wait_for(start / len(self.events))
            call_events = self.events[start : start + self.events_per_call]
            event_keys = self._call(call_events)
            if self.calls % 10 == 0:
                assert self._call(call_events) == event_keys
                self.repeats += len(call_events)
            self.calls += 1

    def _call(self, events: Sequence[Mapping[str, Any]]) -> list[str]:
        """Queue events by one call; check that all are queued, and return their keys."""
        results = self.api.call("POST", "/events/track-async", {"events": events})["results"]
        assert [(result["systemUniqueKey"], result["outcome"]) for result in results] == [
            (tracked["systemUniqueKey"], "queued") for tracked in events
        ]
        return [result["loyaltyEventKey"] for result in results]


def moments(kills: Mapping[str, int], messages: int, pick: random.Random) -> Iterator[tuple[int, str]]:
    """Pairs of a number of received messages and of what to kill then; most are early, while events are evaluated."""
    victims = [what for what, number in kills.items() for _ in range(number)]
    pick.shuffle(victims)
    message_counts = sorted(0.5 * messages * pick.random() ** 2 for _ in victims)
    return zip(map(int, message_counts), victims, strict=True)


def check_records(world: World, events: Sequence[Mapping[str, Any]]) -> None:
    """Compare the stored events, movements, balances and orders with the model."""
    model = Model.of(events)
    with world.engine.connect() as db:
        rows = db.execute(text(MOVEMENTS)).all()
        assert {status for _, status, _, _ in rows} == {"success"}
        assert {count for _, _, count, _ in rows} == {1}
        assert {key: balances_after for key, _, _, balances_after in rows} == model.movements
        assert dict(map(tuple, db.execute(text(BALANCES)))) == model.balances
        assert dict(map(tuple, db.execute(text(BONUSES)))) == model.bonuses
        orders = db.execute(text("SELECT external_id FROM purchase_orders")).scalars().all()
    assert sorted(orders) == sorted(model.orders)
    assert fetch_value(world.engine, WAITING) == 0
    verification = loyalty(world.home, "verify")
    assert verification.returncode == 0, verification.stdout


def check_messages(world: World, dead_letter_keys: set[str]) -> Mapping[str, Any]:
    """Check that each message was received, with valid signatures, and recorded as such; return figures to print."""
    requests = world.receiver.requests()
    assert {request.verdict for request in requests} == {"signed"}
    with world.engine.connect() as db:
        rows = db.execute(text("SELECT trigger_delivery_key::text, status FROM trigger_deliveries")).all()
        keys = set(db.execute(text(KEYS)).scalars())
    assert {status for _, status in rows} == {"succeeded"}
    received_ids = [request.message_id for request in requests if request.mood == RECEIVED]
    assert set(received_ids) == {key for key, _ in rows}
    # One message for each evaluation, and one more for each dead letter.
    assert len(rows) == 2 * len(keys) + len(dead_letter_keys)
    for path in TRIGGER_TYPES:
        successes = {request.event_key for request in requests if (request.path, request.status) == (path, "success")}
        assert successes == keys
    assert {(request.path, request.event_key) for request in requests if request.status == "failed"} == {
        ("/results", key) for key in dead_letter_keys
    }
    moods = Counter(request.mood for request in requests)
    return {"messages": len(rows), "requests": len(requests), "moods": moods, "twice": len(received_ids) - len(rows)}


@dataclass(frozen=True)
class Plan:
    """How many events, members, poisoned events and kills a run has, and the options of the database."""

    events: int
    members: int
    events_per_call: int
    poisoned_events: int
    kills: Mapping[str, int]
    options: Mapping[str, str]


SHORT = Plan(
    events=500,
    members=50,
    events_per_call=25,
    poisoned_events=3,
    kills={"worker": 3, "database": 1, "server": 1, "receiver": 1},
    options={"fsync": "off"},
)
LONG = Plan(
    events=100_000,
    members=1000,
    events_per_call=500,
    poisoned_events=20,
    kills={"worker": 40, "database": 4, "server": 5, "receiver": 5},
    options={},
)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.stress
@pytest.mark.parametrize("plan", [pytest.param(SHORT, id="500 events"), pytest.param(LONG, id="100,000 events")])
def test_each_event_has_its_effects_once_and_each_message_arrives(home, plan):
    pick = random.Random(plan.events)
    with ExitStack() as stack:
        world = World(home, plan.options, stack)
        member_names = world.set_up(plan.members)
        poisoned_numbers = set(pick.sample(range(plan.events), plan.poisoned_events))
        events = [
            new_event(pick.choice(member_names), pick, poisoned=number in poisoned_numbers)
            for number in range(plan.events)
        ]
        start = time.monotonic()
        clients = send_and_kill(world, plan, events, pick)
        seconds_to_send = time.monotonic() - start
        dead_letter_page = world.api.call("GET", f"/organizations/1/events/dead-letters?limit={plan.poisoned_events}")
        dead_letters = [result["event"] for result in dead_letter_page["results"]]
        assert {letter["systemUniqueKey"] for letter in dead_letters} == {
            events[number]["systemUniqueKey"] for number in poisoned_numbers
        }
        assert dead_letter_page["totalCount"] == plan.poisoned_events
        world.write(CURE)
        for letter in dead_letters:
            world.api.call("POST", f"/organizations/1/events/{letter['loyaltyEventKey']}/requeue")
            wait_until(lambda: not fetch_value(world.engine, HAS_QUEUED_EVENTS))
        world.drain()
        assert world.workers.stop() == [0, 0, 0]
        # The requeued dead letters were evaluated after all other events of their members.
        events_by_key = {event["systemUniqueKey"]: event for event in events}
        last_events = [events_by_key[letter["systemUniqueKey"]] for letter in dead_letters]
        check_records(
            world, [event for number, event in enumerate(events) if number not in poisoned_numbers] + last_events
        )
        summary = check_messages(world, {letter["loyaltyEventKey"] for letter in dead_letters})
        print(f"{plan.events} events in {seconds_to_send:.0f} s, evaluated after {world.evaluated_at - start:.0f} s")
        print(f"killed: {dict(world.killed)}, of them with events in the queue: {dict(world.killed_in_time)}")
        print(f"sent twice: {sum(client.repeats for client in clients)}, calls retried: {world.api.retries}")
        print(summary)


def send_and_kill(
    world: World, plan: Plan, events: Sequence[Mapping[str, Any]], pick: random.Random
) -> Sequence[Client]:
    """Send half of the events before any worker runs, and the rest while processes are killed; wait for the results."""
    # All events of a member are sent by the same client, which keeps their order.
    events_by_client = [[event for event in events if hash_of(event) % CLIENTS == number] for number in range(CLIENTS)]
    clients = [Client(world.api, client_events, plan.events_per_call) for client_events in events_by_client]
    # Each event causes a message to each of the two triggers.
    messages = 2 * plan.events

    def wait_for(share_sent: float) -> None:
        """Wait until the receiver has most of the messages about the events of the second half sent so far."""
        wait_until(lambda: world.receiver.request_count >= (share_sent - 0.5) * 0.8 * messages, 1800)

    with ThreadPoolExecutor(CLIENTS) as pool, messages_due_early(world):
        list(pool.map(lambda client: client.send(0.5), clients))
        world.start_workers(3)
        sending = [pool.submit(client.send, 1, wait_for) for client in clients]
        for at, what in moments(plan.kills, messages, pick):
            wait_until(lambda at=at: world.receiver.request_count >= at, 1800)
            # Kill while events are queued, unless all are sent.
            wait_until(lambda: fetch_value(world.engine, HAS_QUEUED_EVENTS) or all(future.done() for future in sending))
            world.kill(what, pick)
        for future in sending:
            future.result()
        world.drain()
    assert world.killed_in_time["worker"]
    assert world.killed_in_time["database"]
    return clients


def hash_of(event: Mapping[str, Any]) -> int:
    """A number that is the same for all events of a member."""
    return zlib.crc32(event["loyaltyMemberId"].encode())
