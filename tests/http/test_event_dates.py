"""An event has one date, however it is sent: its limits, points, missions, referrals and reports count there."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.ledger.records import REVERT
from handlers.services.verify import verify_reports
from tests.builders import clock as clocks
from tests.builders.campaigns import effect, mint
from tests.builders.coupons import CouponBooks
from tests.builders.missions import create
from tests.builders.queue import drain, send
from tests.builders.referrals import Friends
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import ORDER_CREATED, Shop, order, order_update, running, spend

# The event happened so many days before the present.
DAYS_AGO = 500
ROLLING = {"basis": "earned", "period": "rolling", "months": 12}


@dataclass
class Store:
    """A shop in which an order has effects of all kinds, in points of the default account and in stars.

    It mints 30 stars and 30 points, burns 5 stars, and assigns a coupon for 2 stars. It completes a mission for 11
    points. It uses a referral code, for which the buyer gets 50 points and the friend 100.
    """

    shop: Shop
    clock: clocks.Clock
    stars: dict[str, Any]
    tiers: TierSchedule
    code: str
    members: list[str]

    def order(self, **more: Any) -> Any:
        """An order of the first member with the referral code of the second."""
        return order(
            self.members[0], 40, status="created", external_id=f"order-{uuid.uuid4()}", referralCode=self.code, **more
        )


@pytest.fixture
def store(organization, monkeypatch):
    shop, clock = Shop(organization), clocks.install_clock(monkeypatch)
    clock.wait(days=-DAYS_AGO)
    stars = shop.account(pointTrackingEnabled=True, expiresInMonths=36)
    to_stars = {"ledgerAccountKey": stars["ledgerAccountKey"]}
    book = CouponBooks(organization).make(type="codeless", assignmentRequiredPoints=2, requiredPointsConfig=to_stars)
    shop.campaign(
        running(
            mint(30, **to_stars),
            mint(30),
            spend(5, **to_stars),
            effect("assign-coupon", couponBookKey=book["couponBookKey"]),
        ),
        eventType=ORDER_CREATED,
        limitRules=[{"scope": "member", "type": "points", "period": "daily", "limit": 60}],
    )
    create(shop, eventType=ORDER_CREATED, goalCount=1, pointsAccrual=11)
    friends = Friends(shop, eventType=ORDER_CREATED, referrerPointsAccrual=100, referredPointsAccrual=50)
    members = [shop.member(), shop.member()]
    tiers = TierSchedule.new(shop, policy=ROLLING, Silver=10)
    return Store(shop, clock, stars, tiers, friends.code(members[1]), members)


def long_ago(store):
    """The present moment of the store, which lies in the past."""
    return store.clock.now()


def text_of(moment):
    """The moment as requests have it."""
    return moment.isoformat().replace("+00:00", "Z")


def capture(store, late_event):
    """Capture the event when it happens and evaluate it now."""
    [result] = store.shop.track(late_event, executionMode="captureOnly")
    store.clock.wait(days=DAYS_AGO)
    store.shop.administration.post(f"/events/{result['loyaltyEventKey']}/evaluate", expect=200)


def queue(store, late_event):
    """Queue the event when it happens and evaluate it now."""
    send(store.shop, late_event)
    store.clock.wait(days=DAYS_AGO)
    drain(store.shop)


def track(store, late_event):
    """Track the event now."""
    store.clock.wait(days=DAYS_AGO)
    store.shop.track_one(late_event)


def track_batch(store, late_event):
    """Track the event now, between events of other members."""
    store.clock.wait(days=DAYS_AGO)
    first_order, last_order = (order(store.shop.member(), 1) for _ in range(2))
    results = store.shop.track(first_order, late_event, last_order)
    assert [result["status"] for result in results] == ["success"] * 3


def track_in_the_past(store, late_event):
    """Track the event when it happens."""
    store.shop.track_one(late_event)
    store.clock.wait(days=DAYS_AGO)


DATED_BY_EVENT, DATED_BY_ORDER, UNDATED = "event", "order", None
WAYS_TO_SEND = [
    (track_in_the_past, UNDATED),
    *((way, dated_by) for way in (track, track_batch, capture, queue) for dated_by in (DATED_BY_EVENT, DATED_BY_ORDER)),
    (capture, UNDATED),
    (queue, UNDATED),
]


@pytest.mark.parametrize(("way", "dated_by"), WAYS_TO_SEND)
def test_all_effects_of_an_event_have_its_date(store, way, dated_by):
    shop, date = store.shop, long_ago(store)
    [buyer, friend] = store.members
    late_event = store.order()
    if dated_by is not UNDATED:
        dated_object = late_event if dated_by == DATED_BY_EVENT else late_event["payload"]["order"]
        dated_object["externalEventDate"] = text_of(date)
    way(store, late_event)
    # Stars: minted, burned, and the price of the coupon.
    assert shop.balance(buyer, store.stars["ledgerAccountId"]) == 30 - 5 - 2
    # Points: minted, the reward of the mission, and that of the referred member; the referrer gets another reward.
    assert shop.balance(buyer) == 30 + 11 + 50
    assert shop.balance(friend) == 100
    # The transactions, and the expiry of what they minted.
    dates = "t.amount, coalesce(t.external_event_date, t.created_at)"
    transactions = shop.rows("ledger_transactions t", f"{dates}, t.loyalty_event_id", order="ledger_transaction_id")
    event_id = event_id_of(shop, late_event)
    assert sorted(amount for amount, _, cause in transactions if cause == event_id) == [2, 5, 11, 30, 30, 50, 100]
    assert {near(at, date) for _, at, cause in transactions if cause == event_id} == {True}
    expiries = [
        row.expires_at for row in shop.rows("ledger_lots", "*", order="expires_at") if row.expires_at is not None
    ]
    # Stars expire after 36 months.
    assert near(expiries[0], date.replace(year=date.year + 3))
    # The day of the reports.
    assert read_reports(shop, date) == (30 + 11 + 50 + 100, 1)
    # The event lies before the rolling year whose points count for tiers.
    assert store.tiers.of(buyer) == "Basic"
    # The limit of 60 points and stars is used up for the day of the event, but not for today.
    second_order = store.order(externalEventDate=text_of(date))
    assert [result["status"] for result in shop.track_one(second_order)["effects"]][:2] == ["skipped", "skipped"]
    order_of_today = store.order(externalEventDate=text_of(datetime.now(UTC)))
    assert [result["status"] for result in shop.track_one(order_of_today)["effects"]][:2] == ["executed", "executed"]
    assert store.tiers.of(buyer) == "Silver"
    shop.check_ledger()
    with shop.engine.connect() as db:
        assert verify_reports(db, shop.organization.id) == []


def near(moment, date):
    """True if the moment is within an hour of the date: a call made at the date takes some time."""
    return abs(moment - date) < timedelta(hours=1)


def event_id_of(shop, late_event):
    """The id of the stored event."""
    rows = shop.rows("events", "loyalty_event_id, system_unique_key")
    return next(row.loyalty_event_id for row in rows if row.system_unique_key == late_event["systemUniqueKey"])


def read_reports(shop, date):
    """What the default account minted on the day of the order, and how many orders were counted on it."""
    day = {"sinceFrom": text_of(date - timedelta(hours=1)), "sinceTo": text_of(date + timedelta(hours=1))}
    account = shop.organization.defaults.ledger_account_id
    mint_totals = shop.administration.get(f"/reports/ledger-accounts/{account}/totals", **day)
    order_count = shop.administration.get("/reports/event-count", eventType=ORDER_CREATED, **day)
    return mint_totals["result"]["totalAmount"], order_count["result"]["totalCount"]


@pytest.mark.parametrize("way", [queue, track_in_the_past])
def test_points_that_a_return_reverts_have_the_date_of_the_return(store, way):
    shop, date = store.shop, long_ago(store)
    late_event = store.order()
    shop.track_one(late_event)
    [buyer, _] = store.members
    external_id = late_event["payload"]["order"]["externalId"]
    shop.track_one(order_update(buyer, external_id, "confirmed"))
    way(store, order_update(buyer, external_id, "returned"))
    assert shop.balance(buyer) == 0
    reverts = shop.rows("ledger_transactions", "transaction_type, coalesce(external_event_date, created_at)")
    assert {near(at, date) for kind, at in reverts if kind == REVERT} == {True}
    # Minted and reverted on the same day.
    assert read_reports(shop, date)[0] == 0
