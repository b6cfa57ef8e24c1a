"""kill -9 of the server or database under load: acknowledged requests are stored once, others as a whole or not."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from persistence import embedded
from persistence.engine import create_engine
from tests.builders.ledger_client import LedgerClient, Movement
from tests.processes.fleet import kill_database, verify_all
from tests.processes.loyalty import Server, curl_line

MEMBERS = [f"member-{n}" for n in range(8)]
CLIENTS = 4
ORDER_CREATED = "member-purchase-order-created"
WHOLE_DOLLARS = {"effectId": "mint-points", "params": [{"id": "amount", "expression": "floor(order.total)"}]}


@dataclass
class SentRequest:
    """A request that mints `amount` points: by itself, or as an order with this total."""

    kind: Literal["mint", "order"]
    member: str
    amount: int
    key: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def request(self) -> tuple[str, dict[str, Any]]:
        """The path and the body."""
        if self.kind == "mint":
            path = f"/organizations/1/members/by-loyalty-member-id/{self.member}/mint"
            return path, {"amount": self.amount, "systemUniqueKey": self.key}
        order = {"externalId": self.key, "total": self.amount, "items": []}
        event = {"loyaltyMemberId": self.member, "systemUniqueKey": self.key, "eventType": ORDER_CREATED}
        return "/events/track", {"events": [{**event, "payload": {"order": order}}]}


class Shop:
    """A server that is killed and restarted, and the requests of its clients.

    `sent` are all requests, `ids_of_responses` the ids in the responses, by the keys of the requests.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.sent: list[SentRequest] = []
        self.ids_of_responses: dict[str, Any] = {}
        self.ended = threading.Event()
        self.url: str | None = None
        self.headers: dict[str, str] = {}
        self.server: Server | None = None

    def start(self) -> None:
        self.server = Server(self.home, "--workers", "2", "--no-worker", LOYALTY_LOG_LEVEL="warning")
        _, self.headers = curl_line(self.server.greeting())
        self.url = f"{self.server.url}/v2"

    def kill(self) -> None:
        """Kill the server and all its processes; clients pause until it is started again."""
        if self.server is not None and self.server.process.poll() is None:
            os.killpg(self.server.process.pid, signal.SIGKILL)
        # Only now, so that requests are in flight when the server is killed.
        self.url = None
        if self.server is not None:
            self.server.process.wait()
            self.server.process.stdout.close()

    def prepare(self) -> None:
        """Create the members, and a campaign that gives a point per dollar."""
        with httpx.Client(base_url=self.url, headers=self.headers, timeout=60) as client:
            for member in MEMBERS:
                client.post("/members", json={"loyaltyMemberId": member}).raise_for_status()
            rules = [
                {"scope": "campaign", "type": "points", "period": "total", "limit": 10**9, "alertShares": [1]},
                {"scope": "location", "type": "transactions", "period": "daily", "limit": 10**9},
            ]
            body = {"code": "dollars", "name": "Dollars", "eventType": ORDER_CREATED, "limitRules": rules}
            campaign = client.post("/organizations/1/campaigns", json=body).raise_for_status().json()["campaign"]
            action = {"status": "running", "priority": 1, "rules": {}, "effects": {"items": [WHOLE_DOLLARS]}}
            path = f"/organizations/1/campaigns/{campaign['campaignId']}/actions"
            client.post(path, json=action).raise_for_status()

    def send_requests(self, seed: int) -> None:
        """Send random requests until the end; `send_again` repeats the requests without a response."""
        pick = random.Random(seed)
        while not self.ended.is_set():
            url = self.url
            if url is None:
                time.sleep(0.02)
                continue
            with httpx.Client(base_url=url, headers=self.headers, timeout=60) as client:
                while self.url == url and not self.ended.is_set():
                    sent_request = SentRequest(
                        pick.choice(["mint", "order"]), pick.choice(MEMBERS), pick.randint(1, 50)
                    )
                    self.sent.append(sent_request)
                    if not self.send(client, sent_request):
                        break

    def send(self, client: httpx.Client, sent_request: SentRequest) -> bool:
        """Send a request, and store the id in its response; return False if the server was killed."""
        path, body = sent_request.request
        try:
            response = client.post(path, json=body)
        except httpx.TransportError:
            return False
        assert response.status_code == 200, response.text
        if sent_request.kind == "mint":
            [transaction] = response.json()["ledgerTransactions"]
            identity = transaction["ledgerTransactionId"]
        else:
            [result] = response.json()["results"]
            assert result["status"] == "success", result
            identity = result["loyaltyEventKey"]
        assert self.ids_of_responses.setdefault(sent_request.key, identity) == identity
        return True

    def send_again(self) -> None:
        """Send all requests once more, with the same keys."""
        with httpx.Client(base_url=self.url, headers=self.headers, timeout=60) as client:
            for sent_request in self.sent:
                assert self.send(client, sent_request)


@contextmanager
def load(shop: Shop) -> Iterator[None]:
    """Let the clients send during the block; if one fails, the test fails."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(shop.send_requests, seed) for seed in range(CLIENTS)]
        try:
            yield
        finally:
            shop.ended.set()
        for client in clients:
            client.result()


def find_stored(db, shop: Shop) -> dict[str, Any]:
    """The ids of the stored mints and events by request key.

    Check that each has the amount that was sent, and each event one order.
    """
    kinds_and_amounts = {sent_request.key: (sent_request.kind, sent_request.amount) for sent_request in shop.sent}
    mints = db.execute(
        text(
            "SELECT system_unique_key, ledger_transaction_id::text, amount FROM ledger_transactions"
            " WHERE request_digest IS NOT NULL"
        )
    ).all()
    orders = db.execute(
        text(
            "SELECT e.system_unique_key, e.loyalty_event_key::text, sum(t.amount), count(DISTINCT o.order_id)"
            " FROM events e LEFT JOIN ledger_transactions t USING (organization_id, loyalty_event_id)"
            " LEFT JOIN purchase_orders o ON o.organization_id = e.organization_id"
            "   AND o.external_id = e.system_unique_key"
            " WHERE e.event_type = :type GROUP BY e.organization_id, e.loyalty_event_id"
        ),
        {"type": ORDER_CREATED},
    ).all()
    assert [(key, amount) for key, _, amount in mints if kinds_and_amounts[key] != ("mint", amount)] == []
    assert [key for key, _, amount, _ in orders if kinds_and_amounts[key] != ("order", amount)] == []
    assert [key for key, _, _, order_count in orders if order_count != 1] == []
    ids_by_key = {row[0]: row[1] for row in [*mints, *orders]}
    assert len(ids_by_key) == len(mints) + len(orders)
    return ids_by_key


@pytest.mark.parametrize(
    ("kills", "seconds"),
    [pytest.param(1, 0.5, id="once"), pytest.param(20, 2.0, id="20 times", marks=pytest.mark.stress)],
)
def test_a_killed_server_keeps_acknowledged_requests_and_stores_no_half_of_one(home, kills, seconds):
    pick = random.Random(kills)
    shop = Shop(home)
    with embedded.server(home, options={"fsync": "off"}) as url:
        engine = create_engine(url, threads=1)
        try:
            shop.start()
            shop.prepare()
            with load(shop):
                for _ in range(kills):
                    count_before = len(shop.ids_of_responses)
                    deadline = time.monotonic() + 120
                    while len(shop.ids_of_responses) < count_before + 20:
                        assert time.monotonic() < deadline
                        time.sleep(0.01)
                    time.sleep(pick.uniform(0, seconds))
                    shop.kill()
                    shop.start()
            ids_before_repetition = dict(shop.ids_of_responses)
            with engine.connect() as db:
                stored_by_key = find_stored(db, shop)
                assert ids_before_repetition.items() <= stored_by_key.items()
                assert verify_all(db) == []
            shop.send_again()
            with engine.connect() as db:
                assert find_stored(db, shop) == shop.ids_of_responses
                assert len(shop.ids_of_responses) == len(shop.sent)
                assert verify_all(db) == []
                total = db.execute(text("SELECT sum(current_balance) FROM ledger_balances")).scalar()
            assert total == sum(sent_request.amount for sent_request in shop.sent)
            # At least one request was in flight when the server was killed.
            assert len(ids_before_repetition) < len(shop.sent)
        finally:
            shop.kill()
            engine.dispose()


def test_a_killed_database_keeps_committed_transactions(home):
    # With the product's options, so that a commit waits for the disk.
    with embedded.server(home) as url:
        engine = create_engine(url, threads=CLIENTS)
        client = LedgerClient.new(engine)
        points = client.account(point_tracking_enabled=True)
        purses = client.wallets(CLIENTS)
        transaction_ids: dict[str, int] = {}

        def mint_until_killed(purse: int) -> None:
            """Mint single points until the database is killed."""
            while True:
                key = str(uuid.uuid4())
                try:
                    transaction_ids[key] = client.post(
                        Movement(points, Decimal(1), to_wallet_id=purse, system_unique_key=key)
                    )
                except (DBAPIError, OSError):
                    return

        with ThreadPoolExecutor(CLIENTS) as pool:
            minting = [pool.submit(mint_until_killed, purse) for purse in purses]
            while len(transaction_ids) < 50:
                assert not any(future.done() for future in minting)
                time.sleep(0.01)
            kill_database(home)
            for future in minting:
                future.result()
        engine.dispose()
        with embedded.server(home) as second_url:
            engine = create_engine(second_url, threads=1)
            with engine.connect() as db:
                rows = db.execute(
                    text("SELECT system_unique_key, ledger_transaction_id FROM ledger_transactions")
                ).all()
                total = db.execute(text("SELECT sum(current_balance) FROM ledger_balances")).scalar()
                assert verify_all(db) == []
            engine.dispose()
    assert transaction_ids.items() <= dict(map(tuple, rows)).items()
    # Each row is a mint of one point. At most one row of each client has no response: the one whose commit was running.
    assert total == len(rows)
    assert len(transaction_ids) <= len(rows) <= len(transaction_ids) + CLIENTS
