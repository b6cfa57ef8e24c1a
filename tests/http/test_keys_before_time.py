"""Requests repeated under their key return the first result, even after a date that they name has passed."""

from __future__ import annotations

import pytest

from tests.builders import clock as clocks
from tests.builders import missions
from tests.builders.badges import Badges
from tests.builders.coupons import CouponBooks
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, Shop, event


@pytest.fixture
def clock(monkeypatch):
    return clocks.install_clock(monkeypatch)


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def request_now_and_later(clock):
    """A function that makes a request and repeats it after 3 days; it checks that the responses are equal.

    The request is a function of the systemUniqueKey. The dates of requests are a day ahead.
    """

    def request_twice(request):
        response = request("once")
        clock.wait(days=3)
        assert request("once") == response
        return response

    return request_twice


def test_repeated_coupon_calls_return_their_result_after_the_expiry(shop, request_now_and_later, clock):
    book, member = CouponBooks(shop.organization).make(type="codeless"), shop.organization.member()
    path = f"/members/{member['loyaltyMemberId']}/coupon-books/{book['couponBookKey']}/assign"
    body = {"expiresAt": clock.moment(days=1)}
    request_now_and_later(lambda key: shop.integration.post(path, {"systemUniqueKey": key, **body}, expect=200))
    admin_path = f"/coupon-books/{book['couponBookId']}/assign"
    admin_body = {"memberId": member["memberId"], "expiredAt": clock.moment(days=1)}
    request_now_and_later(
        lambda key: shop.administration.post(
            admin_path, {"systemUniqueKeys": [f"{key}-more"], **admin_body}, expect=200
        )
    )
    # Without the key, the request is new, and its date is in the past.
    problem = shop.administration.post(admin_path, admin_body, expect=400)
    assert [error["pointer"] for error in problem["errors"]] == ["/expiredAt"]
    assert shop.rows("coupon_books", "total_assigned")[0].total_assigned == 2


def test_repeated_ledger_calls_return_their_result_after_the_expiry(shop, request_now_and_later, clock):
    ledger, wallet = shop.organization.defaults.ledger_id, shop.organization.member()["ledgerWalletId"]
    path = f"/ledgers/{ledger}/wallets/{wallet}/mint"
    account = shop.account(pointTrackingEnabled=True)["ledgerAccountId"]
    body = {"amount": 5, "expirationDate": clock.moment(days=1)}
    request_now_and_later(lambda key: shop.administration.post(path, {"systemUniqueKey": key, **body}, expect=200))
    mint_in_batch = {"organizationId": shop.organization.id, "ledgerId": ledger, "ledgerAccountId": account}
    mint_in_batch |= {"fromWalletId": None, "toWalletId": wallet, "amount": 5, "expirationDate": clock.moment(days=1)}

    def send_batch(key):
        items = [{"systemUniqueKey": f"batch-{key}", **mint_in_batch}]
        response = shop.administration.post("/ledger-transactions/batch", {"items": items}, expect=200)
        assert response["failed"] == []
        return response

    request_now_and_later(send_batch)


def test_a_repeated_tier_change_returns_its_result_after_the_expiry(shop, request_now_and_later, clock):
    tiers, member = TierSchedule.new(shop, Gold=100), shop.member()
    path = f"/members/{member}/loyalty-programs/{tiers.program['loyaltyProgramKey']}/tier"
    body = {"loyaltyTierKey": tiers.key("Gold"), "expiresAt": clock.moment(days=1)}
    response = request_now_and_later(lambda key: shop.integration.put(path, {"systemUniqueKey": key, **body}))
    assert response == {"loyaltyTierKey": tiers.key("Gold")}
    path = f"/members/by-loyalty-member-id/{member}/tier"
    body = {"loyaltyTierId": tiers.id("Gold"), "loyaltyProgramId": tiers.program["loyaltyProgramId"]}
    body |= {"expiresAt": clock.moment(days=1)}
    request_now_and_later(lambda key: shop.administration.put(path, {"systemUniqueKey": f"{key}-more", **body}))


def test_a_repeated_advance_returns_its_result_after_the_mission_closed(shop, request_now_and_later, clock):
    mission, member = missions.create(shop, validTo=clock.moment(days=1)), shop.member()
    request_now_and_later(
        lambda key: missions.advance(shop, member, mission["missionId"], amount=1, systemUniqueKey=key)
    )
    problem = missions.advance(shop, member, mission["missionId"], amount=1, expect=409)
    assert problem["type"] == "/problems/mission-closed"


def test_repeated_badge_calls_return_their_result_after_the_deactivation(shop, clock):
    badges, member = Badges(shop), shop.member()
    badge = badges.create()
    assignment = badges.assign(member, badge, systemUniqueKey="once")
    unassignment = badges.unassign(member, badge, systemUniqueKey="back")
    badges.change(badge, active=False)
    clock.wait(days=3)
    # Both would be refused as new requests.
    assert badges.assign(member, badge, systemUniqueKey="once") == assignment
    assert badges.unassign(member, badge, systemUniqueKey="back") == unassignment


def test_repeated_events_return_their_result_after_the_campaign_ended(shop, request_now_and_later, clock):
    campaign = {"eventType": GENERIC, "validTo": clock.moment(days=1)}
    shop.campaign(**campaign)
    body = event(shop.member(), externalEventDate=clock.moment(days=-1))
    request_now_and_later(lambda key: shop.track_one({**body, "systemUniqueKey": f"{key}-tracked"}))
    queued_body = {"events": [{**body, "systemUniqueKey": "queued-once"}]}
    request_now_and_later(lambda key: shop.integration.post("/events/track-async", queued_body, expect=202))
