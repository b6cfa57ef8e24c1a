"""2,000 sales at fifty tills, served by four processes, use exactly a budget of 10,000.00."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, text

from persistence import embedded
from persistence.engine import create_engine
from tests.processes.fleet import disposed, verify_all
from tests.processes.loyalty import Server
from tests.processes.test_neighbours import Tenant

TILLS, SALES, STORES = 50, 2_000, 4
BUDGET = Decimal("10000")
DISCOUNT_OF_7_50 = {
    "effectId": "discount",
    "params": [{"id": "type", "value": "amount"}, {"id": "value", "value": 7.5}],
}
ORDER_CREATED = "member-purchase-order-created"


def set_up(tenant: Tenant, *, partial: bool) -> int:
    """Create a campaign that discounts each order by 7.50 within the budget, and a trigger; return the campaign's id.

    An alert is sent when 80 % of the budget are used. If `partial`, the last order gets the rest of the budget.
    """
    tenant.call("PUT", tenant.administration, {"defaultLocale": "en", "currency": "EUR"})
    rule = {"scope": "campaign", "type": "money", "period": "total", "limit": int(BUDGET), "alertShares": [80]}
    body = {
        "code": "autumn",
        "name": "Autumn",
        "eventType": ORDER_CREATED,
        "allowPartialApplicationOnLimit": partial,
        "limitRules": [rule],
    }
    campaign = tenant.make(f"{tenant.administration}/campaigns", body)["campaign"]
    action = {"status": "running", "priority": 1, "effects": {"items": [DISCOUNT_OF_7_50]}}
    tenant.make(f"{tenant.administration}/campaigns/{campaign['campaignId']}/actions", action)
    hook = {"triggerKey": "hook", "name": "Hook", "type": "WebHook", "active": True}
    settings = {"url": "https://hooks.invalid/x", "eventTypes": ["member-generic-event"]}
    tenant.make(f"{tenant.administration}/triggers", {**hook, "settings": settings})
    return int(campaign["campaignId"])


def sale(member: str, number: int) -> dict[str, Any]:
    """The event of an order of 60.00, in one of the stores in turn."""
    order = {"externalId": f"order-{number}", "total": 60, "locationCode": f"store-{number % STORES}"}
    return {
        "loyaltyMemberId": member,
        "systemUniqueKey": str(uuid.uuid4()),
        "eventType": ORDER_CREATED,
        "payload": {"order": order},
    }


def sell(tenant: Tenant) -> list[Decimal]:
    """Track all sales concurrently, each till for its own customer; return the discount of each sale."""
    members = [tenant.member() for _ in range(TILLS)]

    def work(till: int) -> list[Decimal]:
        discounts = []
        with httpx.Client(headers=tenant.headers, timeout=240) as client:
            for number in range(till, SALES, TILLS):
                response = client.post(f"{tenant.url}/events/track", json={"events": [sale(members[till], number)]})
                assert response.status_code == 200, response.text
                [effect] = response.json()["results"][0]["effects"]
                discounts.append(
                    Decimal(0) if effect["status"] == "skipped" else Decimal(str(effect["discountAmount"]))
                )
        return discounts

    begin = time.monotonic()
    with ThreadPoolExecutor(TILLS) as pool:
        discounts = [amount for amounts in pool.map(work, range(TILLS)) for amount in amounts]
    print(f"{SALES} sales of {TILLS} tills in {time.monotonic() - begin:.1f} s")
    return discounts


@contextmanager
def serving(home: Path) -> Iterator[tuple[Server, Engine]]:
    """A server with four processes, and an engine on its database."""
    server = Server(home, "--workers", "4", "--no-worker", LOYALTY_LOG_LEVEL="warning")
    try:
        server.wait_until_ready()
        with embedded.server(home) as url, disposed(create_engine(url, threads=2)) as engine:
            yield server, engine
    finally:
        server.stop()


@pytest.mark.stress
@pytest.mark.parametrize(
    ("partial", "total", "sales_by_discount"),
    # 10,000 = 1333 * 7.5 + 2.5, and there are 2,000 sales.
    [
        pytest.param(False, "9997.50", {"7.5": 1333, "0": 667}, id="whole discounts only"),
        pytest.param(True, "10000.00", {"7.5": 1333, "2.5": 1, "0": 666}, id="the last discount is partial"),
    ],
)
def test_two_thousand_sales_spend_a_budget_exactly(
    home: Path, partial: bool, total: str, sales_by_discount: dict[str, int]
) -> None:
    with serving(home) as (server, engine):
        tenant = Tenant.create(server, home, "Corner Coffee")
        campaign_id = set_up(tenant, partial=partial)
        discounts = sell(tenant)
        assert {amount: discounts.count(Decimal(amount)) for amount in sales_by_discount} == sales_by_discount
        assert sum(discounts) == Decimal(total)
        response = tenant.call("GET", f"{tenant.administration}/campaigns/{campaign_id}?include=limits").json()
        [limit] = response["campaign"]["limits"]
        assert (Decimal(str(limit["used"])), Decimal(str(limit["left"]))) == (Decimal(total), BUDGET - Decimal(total))
        with engine.connect() as db:
            deliveries = "SELECT type, payload::jsonb -> 'data' ->> 'used' FROM trigger_deliveries"
            # The first multiple of 7.5 from 8,000 on, which is 80 % of the budget.
            assert db.execute(text(deliveries)).all() == [("campaign.limit-reached", "8002.5")]
            assert verify_all(db) == []
