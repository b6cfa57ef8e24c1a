"""Two tills send their offline sales later, repeated and out of order, to a server that is killed meanwhile."""

from __future__ import annotations

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from persistence import embedded
from persistence.engine import create_engine
from tests.processes.fleet import disposed, verify_all
from tests.processes.loyalty import Server, curl_line

ORDER_CREATED = "member-purchase-order-created"
WHOLE_EUROS = {"effectId": "mint-points", "params": [{"id": "amount", "expression": "floor(order.total)"}]}
SALES, TOTAL = 15, 10
MINTED, ALLOWANCE = 100, 40
# What the first and the second till redeem of the allowance; only one of them can.
REDEEMED_AMOUNTS = (25, 31)
ORDER_EXISTS, ALLOWANCE_REDEEMED = "/problems/order-exists", "/problems/offline-allowance-redeemed"


class Shop:
    """A server that is killed and started again, with a member who has an offline allowance."""

    def __init__(self, home: Any) -> None:
        self._home = home
        self.start()
        with self.client() as client:
            self._prepare(client)

    def start(self) -> None:
        """Start a server on the home, and wait until it is ready."""
        self.server = Server(self._home, "--workers", "1", "--no-worker", LOYALTY_LOG_LEVEL="error")
        _, self.headers = curl_line(self.server.greeting())
        self.url = f"{self.server.url}/v2"

    def kill(self) -> None:
        if self.server.process.poll() is None:
            os.killpg(self.server.process.pid, signal.SIGKILL)
        self.server.process.wait()
        self.server.process.stdout.close()

    def client(self) -> httpx.Client:
        # Without `verify=False` each client loads the certificates of the system, which takes longer than a call.
        return httpx.Client(base_url=self.url, headers=self.headers, timeout=60, verify=False)

    def _prepare(self, client: httpx.Client) -> None:
        """Create a campaign with a point per euro, and a member with `MINTED` points and an `ALLOWANCE` of them."""

        def post(path: str, body: Any) -> Any:
            return client.post(path, json=body).raise_for_status().json()

        campaign = post("/organizations/1/campaigns", {"code": "euros", "name": "Euros", "eventType": ORDER_CREATED})
        action = {"status": "running", "priority": 1, "rules": {}, "effects": {"items": [WHOLE_EUROS]}}
        post(f"/organizations/1/campaigns/{campaign['campaign']['campaignId']}/actions", action)
        ledger_id = client.get("/organizations/1/ledgers").json()["results"][0]["ledgerId"]
        path = f"/organizations/1/ledgers/{ledger_id}/accounts"
        account_id = client.get(path).json()["results"][0]["ledgerAccountId"]
        allowance = {"enabled": True, "maxAmount": 50, "maxHours": 48, "syncHours": 24}
        account = {"name": "Points", "active": True, "isRevolving": True, "chainSyncEnabled": False}
        client.put(f"{path}/{account_id}", json={**account, "offlineAllowance": allowance}).raise_for_status()
        post("/members", {"loyaltyMemberId": "ana"})
        post("/organizations/1/members/by-loyalty-member-id/ana/mint", {"amount": MINTED})
        request = {"amount": ALLOWANCE, "systemUniqueKey": "app-ana-1"}
        self.token = post("/members/ana/offline-allowances", request)["offlineAllowance"]["token"]


class Till:
    """A till with stored requests: sales and a redemption, each twice, in random order."""

    def __init__(self, shop: Shop, number: int) -> None:
        self._shop, chance = shop, random.Random(number)
        opened_at = datetime.now(UTC) - timedelta(days=2)
        self.requests: list[tuple[str, Any]] = []
        for receipt in range(SALES):
            # Both tills have stored all sales of the shop: each sends every receipt, with its own request key.
            order = {"externalId": f"receipt-{receipt}", "total": TOTAL}
            sale = {"loyaltyMemberId": "ana", "eventType": ORDER_CREATED, "payload": {"order": order}}
            sale |= {"externalEventDate": (opened_at + timedelta(minutes=receipt)).isoformat()}
            body = {"events": [{**sale, "systemUniqueKey": f"till-{number}/{receipt}"}]}
            self.requests += [("/events/track", body)] * 2
        redemption = {
            "token": shop.token,
            "amount": REDEEMED_AMOUNTS[number],
            "systemUniqueKey": f"till-{number}/redemption",
        }
        redemption |= {"externalEventDate": datetime.now(UTC).isoformat()}
        self.requests += [("/offline-allowances/redeem", redemption)] * 2
        chance.shuffle(self.requests)
        self.outcomes: list[str] = []

    def send(self) -> None:
        """Send all requests, each until it has a response."""
        for path, body in self.requests:
            self.outcomes.append(self._outcome(path, body))

    def _outcome(self, path: str, body: Any) -> str:
        """Send a request until it has a response; returns "done" or the type of the problem."""
        while True:
            try:
                with self._shop.client() as client:
                    response = client.post(path, json=body)
            except httpx.TransportError:
                time.sleep(0.02)
                continue
            # A refused redemption is a problem; a refused sale is a result with an error.
            if response.status_code == 409:
                return response.json()["type"]
            if response.status_code == 200:
                [result] = response.json().get("results", [{}])
                return result["error"]["type"] if result.get("error") else "done"
            assert response.status_code == 503, response.text


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.stress)])
def test_offline_sales_and_redemptions_sent_by_two_tills_count_once(home, kills):
    with embedded.server(home, options={"fsync": "off"}) as url:
        shop = Shop(home)
        tills = [Till(shop, number) for number in range(2)]
        try:
            with ThreadPoolExecutor(len(tills)) as pool:
                sending = [pool.submit(till.send) for till in tills]
                for kill_number in range(1, kills + 1):
                    # Kill the server each time when some further requests have a response.
                    while sum(len(till.outcomes) for till in tills) < kill_number * SALES // 2:
                        assert not any(future.done() and future.exception() for future in sending)
                        time.sleep(0.005)
                    shop.kill()
                    shop.start()
                for future in sending:
                    future.result()
            outcomes = [outcome for till in tills for outcome in till.outcomes]
            # Each receipt is accepted from one till and refused from the other; repetitions get the first response.
            # The same is true of the redemption of the allowance.
            assert (outcomes.count(ORDER_EXISTS), outcomes.count(ALLOWANCE_REDEEMED)) == (2 * SALES, 2)
            assert outcomes.count("done") == 2 * SALES + 2
            redeemed_amount = next(
                amount
                for till, amount in zip(tills, REDEEMED_AMOUNTS, strict=True)
                if ALLOWANCE_REDEEMED not in till.outcomes
            )
            with shop.client() as client:
                member = client.get("/members/ana").raise_for_status().json()["loyaltyMember"]
            balance = sum(account["balance"] for account in member["ledgerBalances"])
            assert balance == MINTED + SALES * TOTAL - redeemed_amount
            with disposed(create_engine(url, threads=1)) as engine, engine.connect() as db:
                assert verify_all(db) == []
        finally:
            shop.kill()
