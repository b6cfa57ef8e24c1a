"""The points of an event have the tags of their campaign, and the externalId and description of the event."""

from __future__ import annotations

import pytest

from tests.builders.campaigns import mint
from tests.builders.missions import create
from tests.builders.referrals import Friends
from tests.builders.tracking import GENERIC, Shop, event, running, spend


@pytest.fixture
def shop(organization):
    return Shop(organization)


def texts_and_tags_by_amount(shop):
    """(external id, description, tags) of each transaction, by its amount."""
    rows = shop.rows("ledger_transactions", "amount, external_id, description, tags")
    return {int(row.amount): (row.external_id, row.description, row.tags) for row in rows}


def total_of_tag(shop, tag):
    """The points that were minted with a tag, by a report."""
    return shop.administration.get("/reports/tag-total", tag=tag)["result"]["amount"]


def test_points_have_the_texts_of_the_event_and_the_tags_of_their_rule(shop):
    shop.campaign(
        running(mint(30), mint(40, description="Double day"), mint(7, recipient="sponsor"), spend(5)),
        eventType=GENERIC,
        tags=["spring", "shop"],
    )
    create(shop, goalCount=1, pointsAccrual=11, tags=["streak"])
    friends = Friends(shop, tags=["friends"])
    buyer, friend = shop.member(), shop.member()
    purchase = event(
        buyer,
        GENERIC,
        sponsorLoyaltyMemberId=friend,
        externalId="till-7",
        description="Coffee",
        tags=["till"],
        payload={"referralCode": friends.code(friend)},
    )
    track_result = shop.track_one(purchase)
    assert texts_and_tags_by_amount(shop) == {
        30: ("till-7", "Coffee", ["spring", "shop"]),
        40: ("till-7", "Double day", ["spring", "shop"]),
        # Transactions of other members do not have the texts of the member's event.
        7: (None, None, ["spring", "shop"]),
        5: ("till-7", "Coffee", ["spring", "shop"]),
        # The mission gives 11 points, the referral program 50 to the buyer and 100 to the friend.
        11: ("till-7", "Coffee", ["streak"]),
        50: ("till-7", "Coffee", ["friends"]),
        100: (None, "Bring a friend", ["friends"]),
    }
    totals = {"spring": 30 + 40 + 7, "shop": 30 + 40 + 7, "streak": 11, "friends": 50 + 100}
    assert {tag: total_of_tag(shop, tag) for tag in totals} == totals
    shop.integration.post(f"/events/{track_result['loyaltyEventKey']}/cancel", {}, expect=200)
    assert {tag: total_of_tag(shop, tag) for tag in totals} == dict.fromkeys(totals, 0)


def test_points_of_an_event_without_texts_have_none(shop):
    shop.campaign(running(mint(30)), eventType=GENERIC)
    shop.track_one(event(shop.member()))
    assert texts_and_tags_by_amount(shop) == {30: (None, None, None)}
