"""The undoing of an order is checked against the maximum supply as a whole, not for each of its transactions."""

from __future__ import annotations

import pytest

from tests.builders.campaigns import mint
from tests.builders.points import Points
from tests.builders.tracking import ORDER_CREATED, Shop, order, order_update, running, spend


@pytest.fixture
def shop(organization):
    """The default account may issue 100 points in all."""
    points = Points.default(organization)
    points.admin.put(f"{points.path}/max-supply", {"maxSupply": 100}, expect=200)
    shop = Shop(organization)
    yield shop
    shop.check_ledger()


def cancel_event(shop, member, loyalty_event_key):
    """Cancel the event of the order."""
    shop.integration.post(f"/events/{loyalty_event_key}/cancel", {}, expect=200)


def cancel_order(shop, member, loyalty_event_key):
    """Report that the order was cancelled."""
    shop.track_one(order_update(member, "o-1", "cancelled"))


def return_order(shop, member, loyalty_event_key):
    """Report that the whole order came back."""
    shop.track_one(order_update(member, "o-1", "confirmed"))
    shop.track_one(order_update(member, "o-1", "returned"))


@pytest.mark.parametrize("undo", [cancel_event, cancel_order, return_order])
@pytest.mark.parametrize("effects", [(mint(40), spend(20)), (spend(20), mint(40))], ids=["mint first", "burn first"])
def test_an_order_is_undone_if_the_supply_is_exhausted_but_falls(shop, effects, undo):
    ana, ben = shop.member(), shop.member()
    shop.give(ana, 50)
    shop.campaign(running(*effects), eventType=ORDER_CREATED)
    result = shop.track_one(order(ana, external_id="o-1"))
    assert shop.balance(ana) == 50 + 40 - 20
    # 70 + 30 points are issued, which is the maximum.
    shop.give(ben, 30)
    undo(shop, ana, result["loyaltyEventKey"])
    assert shop.balance(ana) == 50
    # So 80 points are issued, and 20 more fit.
    shop.give(ben, 20)


@pytest.mark.parametrize(("ben_points", "is_refused"), [(50, False), (51, True)])
def test_the_undoing_of_an_order_is_refused_if_the_supply_would_exceed_its_maximum(shop, ben_points, is_refused):
    ana, ben = shop.member(), shop.member()
    shop.give(ana, 50)
    shop.campaign(running(mint(10), spend(30)), eventType=ORDER_CREATED)
    shop.track_one(order(ana, external_id="o-1"))
    shop.give(ben, ben_points)
    # The 50 points that Ana had before the order have to fit besides the points of Ben.
    cancelled_order = order_update(ana, "o-1", "cancelled")
    if is_refused:
        assert shop.expect_refusal(cancelled_order) == "/problems/supply-exceeded"
        assert shop.balance(ana) == 50 - 30 + 10
    else:
        shop.track_one(cancelled_order)
        assert shop.balance(ana) == 50
