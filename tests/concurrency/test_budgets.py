"""Budgets that many threads use: they are exact to the cent, whether their counters are in one row or split."""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import pytest

from domain.campaigns import counters
from tests.builders.campaigns import effect
from tests.builders.tracking import ORDER_CREATED, order, order_update, running
from tests.concurrency.simultaneous import run_simultaneously

TILLS, SALES = 16, 10
DISCOUNT = Decimal("7.5")


@pytest.fixture(params=["as they wait", "from the beginning"])
def splitting(request, monkeypatch):
    """Split counters when many transactions wait for them, or at once if each part can hold one count."""
    if request.param == "from the beginning":
        monkeypatch.setattr(counters, "_WAITS_BEFORE_SPLIT", 0)
        monkeypatch.setattr(counters, "_MIN_COUNTS_OF_PART", 1)


def limits(shop, campaign):
    """The used amount, the remaining amount and the location of each limit of a campaign."""
    rows = shop.administration.get(f"/campaigns/{campaign['campaignId']}", include="limits")["campaign"]["limits"]
    return [(limit["used"], limit["left"], limit["location"]) for limit in rows]


def campaign_with_budget(shop, limit, *, parts, **more):
    """A campaign with a discount of 7.50 on each order, a limit of money, and alerts.

    With `parts`, the last discount is cut to the remaining money; without, it is not given.
    """
    shop.administration.put("", {"defaultLocale": "en", "currency": "EUR"})
    hook = {"triggerKey": "hook", "name": "Hook", "type": "WebHook", "active": True}
    settings = {"url": "https://hooks.invalid/x", "eventTypes": ["member-generic-event"]}
    shop.administration.post("/triggers", {**hook, "settings": settings})
    rule = {"scope": "campaign", "type": "money", "period": "total", "limit": limit, "alertShares": [50, 80], **more}
    return shop.campaign(
        running(effect("discount", type="amount", value=DISCOUNT)),
        eventType=ORDER_CREATED,
        limitRules=[rule],
        allowPartialApplicationOnLimit=parts,
    )


def sell(shop, member, till):
    """Ten sales of a till, one call each; the discounts by the external ids of the orders."""
    amounts = {}
    for number in range(SALES):
        name = f"{till}-{number}"
        [discount] = shop.track_one(order(member, 60, external_id=name, locationCode=f"store-{till % 4}"))["effects"]
        amounts[name] = Decimal(0) if discount["status"] == "skipped" else Decimal(str(discount["discountAmount"]))
    return amounts


def alerts(shop):
    """The share in percent, the used amount and the location of each alert that was sent."""
    rows = shop.rows("trigger_deliveries", "payload::jsonb -> 'data' AS data")
    return sorted((row.data["share"], row.data["used"], row.data["location"]) for row in rows)


@pytest.mark.parametrize(
    ("parts", "total", "cut_count"),
    [
        pytest.param(False, 106 * DISCOUNT, 0, id="whole discounts only"),
        pytest.param(True, 106 * DISCOUNT + 5, 1, id="the last discount is cut"),
    ],
)
def test_a_budget_is_used_to_the_last_cent_and_returns_release_their_part(shop, splitting, parts, total, cut_count):
    # 16 tills with 10 sales: 160 discounts of 7.50 would be 1200; 106 are 795, and a cut one of 5 makes 800.
    campaign = campaign_with_budget(shop, 800, parts=parts)
    members = [shop.member() for _ in range(TILLS)]
    sales = {}
    for amounts in run_simultaneously([partial(sell, shop, member, till) for till, member in enumerate(members)]):
        sales |= amounts
    amounts = list(sales.values())
    assert amounts.count(DISCOUNT) == 106
    assert amounts.count(Decimal(5)) == cut_count
    assert sum(amounts) == total
    assert limits(shop, campaign) == [(total, 800 - total, None)]
    # The first multiples of 7.50 that are at least 50 and 80 % of 800.
    assert alerts(shop) == [(50, 405, None), (80, Decimal("645"), None)]
    owners = {f"{till}-{number}": member for till, member in enumerate(members) for number in range(SALES)}
    discounted_orders = [name for name, amount in sales.items() if amount == DISCOUNT][:40]

    def return_part(name, share):
        """Confirm an order of 60, and return this share of it."""
        member = owners[name]
        shop.track_one(order_update(member, name, "confirmed"))
        shop.track_one(order_update(member, name, "partially-returned", items=[{"total": 60 * share}]))

    halves = [partial(return_part, name, Decimal("0.5")) for name in discounted_orders[:8]]
    wholes = [partial(return_part, name, Decimal(1)) for name in discounted_orders[8:16]]
    cancels = [
        partial(shop.track_one, order_update(owners[name], name, "cancelled")) for name in discounted_orders[16:24]
    ]
    run_simultaneously(halves + wholes + cancels)
    # 8 halves, and 8 whole returns and 8 cancellations.
    used_amount = total - 8 * DISCOUNT / 2 - 16 * DISCOUNT
    assert limits(shop, campaign) == [(used_amount, 800 - used_amount, None)]
    # The released money, 8 * 3.75 + 16 * 7.50 = 150, is used again.
    later_results = run_simultaneously([partial(shop.track_one, order(member, 60)) for member in members * 2])
    assert sum(Decimal(str(result["effects"][0].get("discountAmount", 0))) for result in later_results) == 150
    assert limits(shop, campaign) == [(total, 800 - total, None)]
    # No alert is sent a second time.
    assert len(alerts(shop)) == 2


def test_each_store_keeps_to_its_own_limit(shop, splitting):
    campaign = campaign_with_budget(shop, 100, parts=True, scope="location", locationLimits={"store-3": 200})
    members = [shop.member() for _ in range(TILLS)]
    run_simultaneously([partial(sell, shop, member, till) for till, member in enumerate(members)])
    exhausted_limits = [(200, 0, "store-3"), *((100, 0, f"store-{number}") for number in range(3))]
    assert limits(shop, campaign) == exhausted_limits
    shares = {(share, location) for share, _, location in alerts(shop)}
    # Two alerts for each of four stores.
    assert len(alerts(shop)) == len(shares) == 8
