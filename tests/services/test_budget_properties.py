"""Properties of budgets: after any history the used amount is the sum over all orders, in one counter or in parts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.campaigns import counters
from tests.builders.api import running_api
from tests.builders.campaigns import effect
from tests.builders.tracking import ORDER_CREATED, Shop, order, order_update, running

many = settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
CENT = Decimal("0.01")
CAMPAIGN_LIMIT, LOCATION_LIMIT = Decimal(60), Decimal(25)


@pytest.fixture(scope="module")
def api(settings):
    # Other tests validate responses; here it would take long.
    with running_api(replace(settings, validate_responses=False)) as api:
        yield api


@pytest.fixture(params=["one row", "parts"])
def splitting(request, monkeypatch):
    """Counters in one row, or split at the first count into parts, each of which takes one count."""
    if request.param == "parts":
        monkeypatch.setattr(counters, "_WAITS_BEFORE_SPLIT", 0)
        monkeypatch.setattr(counters, "_MIN_COUNTS_OF_PART", 1)


@dataclass
class Sale:
    """A sale that got a discount; `remaining_total` is the part of its total that was not returned."""

    location: str
    event_key: str
    total: Decimal
    discount: Decimal
    remaining_total: Decimal
    is_confirmed: bool = False

    @property
    def used_amount(self) -> Decimal:
        """The part of the budget that the sale uses."""
        return (self.discount * self.remaining_total / self.total).quantize(CENT, ROUND_HALF_UP)


STEPS = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["sale", "sale", "sale", "return", "cancel", "authorize", "dry run"]),
            "total": st.integers(100, 9000).map(lambda cents: Decimal(cents) / 100),
            "location": st.sampled_from(["MAD", "LPA"]),
            "currency": st.sampled_from([None, None, "USD"]),
            "share": st.sampled_from([Decimal("0.1"), Decimal("0.5"), Decimal(1)]),
            "pick": st.integers(0, 100),
        }
    ),
    min_size=5,
    max_size=25,
)


@pytest.mark.slow
@many
@given(steps=STEPS, partial=st.booleans(), percentage=st.integers(5, 60))
def test_the_used_budget_is_the_sum_over_all_orders(api, splitting, steps, partial, percentage):
    shop = Shop(api.organization())
    shop.administration.put("", {"defaultLocale": "en", "currency": "EUR"})
    rules = [
        {"scope": "campaign", "type": "money", "period": "total", "limit": CAMPAIGN_LIMIT, "alertShares": [50]},
        {"scope": "location", "type": "money", "period": "yearly", "limit": LOCATION_LIMIT, "sharedKey": "stores"},
    ]
    campaign = shop.campaign(
        running(effect("discount", type="percentage", value=percentage)),
        eventType=ORDER_CREATED,
        limitRules=rules,
        allowPartialApplicationOnLimit=partial,
    )
    member, sales = shop.member(), {}
    for number, step in enumerate(steps):
        _do_step(shop, member, f"o-{number}", step, sales, partial, percentage)
        used_amounts = _used_amounts(shop, campaign)
        assert used_amounts == _expected_amounts(sales)
        assert used_amounts[None] <= CAMPAIGN_LIMIT
    shop.check_ledger()
    # Cancelling the remaining sales frees the whole budget.
    for sale in sales.values():
        if sale.remaining_total:
            shop.integration.post(f"/events/{sale.event_key}/cancel", {}, expect=200)
    assert set(_used_amounts(shop, campaign).values()) <= {0}
    shop.check_ledger()


def _do_step(
    shop: Shop, member: str, name: str, step: dict[str, Any], sales: dict[str, Sale], partial: bool, percentage: int
) -> None:
    """Do one step, and add a sale to `sales` or change one; they are by the external id of their orders."""
    open_sales = [external_id for external_id, sale in sales.items() if sale.remaining_total]
    if step["kind"] in ("sale", "authorize", "dry run"):
        modes = {"authorize": {"executionMode": "authorize"}, "dry run": {"dryRun": True}}
        currency = {} if step["currency"] is None else {"currency": step["currency"]}
        tracked_order = order(member, step["total"], external_id=name, locationCode=step["location"], **currency)
        result = shop.track_one(tracked_order, **modes.get(step["kind"], {}))
        [outcome] = result["effects"]
        discount = Decimal(0) if outcome["status"] == "skipped" else Decimal(str(outcome["discountAmount"]))
        full_discount = (step["total"] * percentage / 100).quantize(CENT, ROUND_HALF_UP)
        # Budgets in EUR do not limit orders in another currency.
        if step["currency"] == "USD":
            assert discount == full_discount
            return
        used_amounts = _expected_amounts(sales)
        remaining = min(CAMPAIGN_LIMIT - used_amounts[None], LOCATION_LIMIT - used_amounts[step["location"]])
        assert discount == (
            min(full_discount, remaining) if partial else full_discount if full_discount <= remaining else 0
        )
        if step["kind"] != "dry run":
            total = step["total"]
            sales[name] = Sale(step["location"], result["loyaltyEventKey"], total, discount, total)
    elif open_sales:
        external_id = open_sales[step["pick"] % len(open_sales)]
        sale = sales[external_id]
        if step["kind"] == "cancel":
            shop.integration.post(f"/events/{sale.event_key}/cancel", {}, expect=200)
            sale.remaining_total = Decimal(0)
            return
        if not sale.is_confirmed:
            shop.track_one(order_update(member, external_id, "confirmed"))
            sale.is_confirmed = True
        part = max(CENT, (sale.remaining_total * step["share"]).quantize(CENT, ROUND_HALF_UP))
        shop.track_one(order_update(member, external_id, "partially-returned", items=[{"total": part}]))
        sale.remaining_total -= part


def _expected_amounts(sales: dict[str, Sale]) -> dict[str | None, Decimal]:
    """The used amounts by location, and of all orders by None; locations that use nothing are missing."""
    used_amounts: dict[str | None, Decimal] = defaultdict(Decimal)
    for sale in sales.values():
        used_amounts[None] += sale.used_amount
        used_amounts[sale.location] += sale.used_amount
    return defaultdict(Decimal, {code: amount for code, amount in used_amounts.items() if amount})


def _used_amounts(shop: Shop, campaign: dict[str, Any]) -> dict[str | None, Decimal]:
    """The used amounts that the server reports, in the form of `_expected_amounts`."""
    limits = shop.administration.get(f"/campaigns/{campaign['campaignId']}", include="limits")["campaign"]["limits"]
    used_amounts = {limit["location"]: Decimal(str(limit["used"])) for limit in limits}
    return defaultdict(Decimal, {code: amount for code, amount in used_amounts.items() if amount})
