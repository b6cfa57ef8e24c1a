"""Rules on the earlier orders of a member: `member.lastOrderAt` and `member.orderCount`."""

from __future__ import annotations

import pytest

from tests.builders.campaigns import mint
from tests.builders.coupons import CouponBooks
from tests.builders.missions import create, progress_of
from tests.builders.queue import drain, send
from tests.builders.statements import count
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, order_update, running

# A point for each earlier order.
MINT_ORDER_COUNT = mint(("=", "member.orderCount"))


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def member(shop):
    """The loyaltyMemberId of a new member."""
    return shop.member()


def on(day):
    """The field with the date of an event on a day of 2026, such as 03-01."""
    return {"externalEventDate": f"2026-{day}T12:00:00Z"}


def history_on(shop, member, *days, type_=GENERIC):
    """Track an event on each of these days, with a campaign that is active only meanwhile.

    Returns for each event the number of earlier orders that it sees, and the day of the last one.
    """
    expression = "member.lastOrderAt == null ? 'none' : string(member.lastOrderAt).substring(5, 10)"
    campaign = shop.campaign(
        running(mint(("=", "member.orderCount"), description=("=", expression), qualifyingAmount=1)), eventType=type_
    )
    histories = []
    for day in days:
        [effect] = shop.track_one(event(member, type_, **on(day)))["effects"]
        params = {param["id"]: param["value"] for param in effect["params"]}
        histories.append((params["amount"], params["description"]))
    shop.administration.put(
        f"/campaigns/{campaign['campaignId']}", {"code": campaign["code"], "name": "Off", "active": False}
    )
    return histories


def test_returned_orders_do_not_count_and_an_event_sees_only_orders_before_its_date(shop, member):
    for number, day in enumerate(("01-01", "02-01", "03-01")):
        shop.track_one(order(member, 10, external_id=f"o-{number}", **on(day)))
    shop.track_one(order_update(member, "o-0", "confirmed"))
    # Without the first order, those of 1 February and 1 March count.
    shop.track_one(order_update(member, "o-0", "returned"))
    assert history_on(shop, member, "03-10", "02-15", "02-01", "01-15") == [
        (2, "03-01"),
        (1, "02-01"),
        (0, "none"),
        (0, "none"),
    ]


@pytest.mark.parametrize("way", ["cancelEvent", "cancelled", "rejected"])
def test_cancelled_and_rejected_orders_do_not_count(shop, member, way):
    track_result = shop.track_one(order(member, 10, external_id="o-1", **on("01-01")))
    assert history_on(shop, member, "03-10") == [(1, "01-01")]
    if way == "cancelEvent":
        shop.integration.post(f"/events/{track_result['loyaltyEventKey']}/cancel", {}, expect=200)
    else:
        shop.track_one(order_update(member, "o-1", way))
    assert history_on(shop, member, "03-11") == [(0, "none")]


@pytest.mark.parametrize(
    ("date_of_last_order", "points"),
    [
        pytest.param("2025-01-01", 100, id="14 months before"),
        pytest.param("2025-04-01", 0, id="11 months before"),
        pytest.param(None, 100, id="no order"),
    ],
)
def test_a_rule_can_reward_the_first_purchase_in_a_year(shop, member, date_of_last_order, points):
    rule = 'member.lastOrderAt == null || event.externalEventDate - member.lastOrderAt > duration("8760h")'
    shop.campaign(running(mint(100), rule=rule), eventType=ORDER_CREATED)
    if date_of_last_order is not None:
        shop.track_one(order(member, 10, externalEventDate=f"{date_of_last_order}T12:00:00Z"))
    balance_before = shop.balance(member)
    shop.track_one(order(member, 10, externalEventDate="2026-03-01T12:00:00Z"))
    assert shop.balance(member) - balance_before == points


def test_an_event_sees_earlier_orders_of_its_call_but_not_its_own_order(shop, member):
    shop.campaign(running(MINT_ORDER_COUNT), eventType=ORDER_CREATED)
    shop.campaign(running(MINT_ORDER_COUNT), eventType="member-purchase-order-confirmed")
    results = shop.track(
        order(member, 1, external_id="a", **on("01-01")),
        order(member, 1, external_id="b", **on("02-01")),
        order_update(member, "a", "confirmed", **on("02-02")),
        order_update(member, "b", "cancelled"),
        order(member, 1, external_id="c", **on("03-01")),
    )
    amounts = [effect["params"][0]["value"] for result in results for effect in result["effects"]]
    # The creation of a, of b, the confirmation of a (which sees b), and the creation of c (which sees a).
    assert amounts == [0, 1, 1, 1]
    # A dry run, a simulation and a queued event see the orders a and c.
    [dry_result] = shop.track(order(member, 1, **on("04-01")), executionMode="dryRun")
    assert dry_result["effects"][0]["params"][0]["value"] == 2
    body = {"loyaltyMemberId": member, "order": {"total": 10}}
    simulation = shop.integration.post("/simulations", body, expect=200)["simulation"]
    assert [account["available"] for account in simulation["earn"]["accounts"]] == [2]
    # A person who is no member has no orders.
    guest = shop.integration.post("/simulations", {"as": {}, "order": {"total": 10}}, expect=200)["simulation"]
    assert guest["earn"]["accounts"] == []
    send(shop, order(member, 1, **on("05-01")))
    drain(shop)
    # 1 of the confirmation of a, 1 of c, and 2 of the last order; the point of the cancelled order b was clawed back.
    assert shop.balance(member) == 1 + 1 + 2


def test_expressions_of_missions_sponsors_and_coupon_books_see_the_history(shop, member):
    sponsor = shop.member()
    shop.track(order(member, 1), order(member, 1), order(sponsor, 1))
    mission = create(shop, goalCount=100, countExpression="member.orderCount")
    shop.campaign(running(mint(("=", "sponsor.orderCount"))), eventType=GENERIC)
    shop.track_one(event(member, sponsorLoyaltyMemberId=sponsor))
    assert progress_of(shop, member, mission["missionKey"])["currentCounterCount"] == 2
    assert shop.balance(member) == 1
    book = CouponBooks(shop.organization).make(type="codeless", condition={"expression": "member.orderCount >= 2"})
    path = f"/coupon-books/{book['couponBookKey']}/assign"
    # The member has two orders, the sponsor one.
    problem = shop.integration.post(f"/members/{sponsor}{path}", {}, expect=409)
    assert problem["type"] == "/problems/coupon-book-condition"
    shop.integration.post(f"/members/{member}{path}", {}, expect=200)
    assert len(shop.integration.get(f"/members/{member}/coupon-books")["results"]) == 1
    assert shop.integration.get(f"/members/{sponsor}/coupon-books")["results"] == []


def test_one_statement_reads_the_orders_of_a_call_only_if_an_expression_names_them(shop, member):
    def statements_of_call(event_count):
        """The number of statements of a call that tracks this number of events."""
        return count(shop.engine, lambda: shop.track(*(event(member) for _ in range(event_count))))

    # In this rule, orderCount is a text and not a name.
    shop.campaign(running(mint(1), rule="'orderCount' != member.loyaltyMemberId"), eventType=GENERIC)
    # The first call after a change fills caches.
    statements_of_call(1)
    count_without_history = statements_of_call(1)
    shop.campaign(running(mint(1), rule="[member].exists(m, m.orderCount > 0)"), eventType=GENERIC)
    statements_of_call(1)
    assert statements_of_call(1) == count_without_history + 1
    assert statements_of_call(10) == statements_of_call(20)
