"""Reversals that meet an evaluation: the members whom it has rewarded in the meantime are locked, too."""

from __future__ import annotations

import pytest

from persistence import reversals
from tests.builders.campaigns import mint
from tests.builders.coupons import CouponBooks
from tests.builders.referrals import Friends
from tests.builders.tracking import GENERIC, event, order, order_update, running
from tests.concurrency.simultaneous import run_after

CONFIRMED = "member-purchase-order-confirmed"


def test_a_cancellation_reverts_what_a_simultaneous_confirmation_gave_the_sponsor(shop, monkeypatch):
    shop.campaign(running(mint(5), mint(7, recipient="sponsor")), eventType=CONFIRMED)
    ana, ben = shop.member(), shop.member()
    shop.give(ana, 100)
    shop.track_one(order(ben, 10, external_id="o"))
    confirmation = {**order_update(ben, "o", "confirmed"), "sponsorLoyaltyMemberId": ana}
    run_after(monkeypatch, reversals, "find_members_of_orders", lambda: shop.track_one(confirmation))
    shop.track_one(order_update(ben, "o", "cancelled"))
    assert [row[0] for row in shop.rows("purchase_orders", "status")] == ["cancelled"]
    assert (shop.balance(ana), shop.balance(ben)) == (100, 0)


@pytest.mark.parametrize("points", [100, None])
def test_a_cancellation_reverts_the_referral_of_a_simultaneous_confirmation(shop, monkeypatch, points):
    book = CouponBooks(shop.organization).make(type="codeless")["couponBookKey"]
    friends = Friends(shop, eventType=CONFIRMED, referrerCouponBookKey=book, referrerPointsAccrual=points)
    ana, ben = shop.member(), shop.member()
    code = friends.code(ana)
    shop.give(ana, 100)
    shop.track_one(order(ben, 10, external_id="o"))
    confirmation = order_update(ben, "o", "confirmed", referralCode=code)
    lookups = run_after(monkeypatch, reversals, "find_members_of_orders", lambda: shop.track_one(confirmation))
    shop.track_one(order_update(ben, "o", "cancelled"))
    # Looked up again, so that the referrer is locked, too.
    assert len(lookups) == 2
    assert (shop.balance(ana), shop.balance(ben)) == (100, 0)
    assert shop.integration.get(f"/members/{ana}/coupons")["results"] == []
    assert friends.usages() == {code: 0}


def test_cancelling_an_event_reverts_what_its_simultaneous_evaluation_gave_the_sponsor(shop, monkeypatch):
    shop.campaign(running(mint(5), mint(7, recipient="sponsor")), eventType=GENERIC)
    ana, ben = shop.member(), shop.member()
    shop.give(ana, 100)
    captured_event = {**event(ben), "sponsorLoyaltyMemberId": ana}
    path = f"/events/{shop.track_one(captured_event, executionMode='captureOnly')['loyaltyEventKey']}"
    run_after(
        monkeypatch,
        reversals,
        "find_members",
        lambda: shop.administration.post(f"{path}/evaluate", expect=200),
    )
    shop.integration.post(f"{path}/cancel", {}, expect=200)
    assert (shop.balance(ana), shop.balance(ben)) == (100, 0)
