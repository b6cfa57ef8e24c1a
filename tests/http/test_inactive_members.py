"""Inactive members gain and lose nothing by new effects; earlier effects can be reverted."""

from __future__ import annotations

import pytest

from tests.builders.badges import Badges, assigns, unassigns
from tests.builders.campaigns import effect, mint
from tests.builders.coupons import CouponBooks
from tests.builders.missions import advance, create, member_id_of
from tests.builders.missions import progress_of as progress
from tests.builders.referrals import Friends
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, Shop, event, order, running, spend

INACTIVE = "/problems/member-inactive"


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def member(shop):
    """The loyaltyMemberId of a new active member."""
    return shop.member()


def deactivate(shop, member, **more):
    """Make the member inactive; return the response."""
    return shop.integration.patch(f"/members/{member}", {"active": False, **more})


@pytest.mark.parametrize("by_id", [False, True], ids=["integration", "administration"])
def test_badges_of_an_inactive_member_cannot_change(shop, member, by_id):
    badges = Badges(shop, by_id=by_id)
    badge = badges.create()
    assignment = badges.assign(member, badge, amount=2, systemUniqueKey="till-1")
    deactivate(shop, member)
    # New changes are refused; a repeated request gets its response, and earlier changes can be reverted.
    for act in (badges.assign, badges.unassign):
        assert act(member, badge, expect=409)["type"] == INACTIVE
    assert badges.assign(member, badge, amount=2, systemUniqueKey="till-1") == assignment
    assert badges.balance(member, badge) == 2
    badges.revert(member, assignment)
    assert badges.balance(member, badge) == 0
    shop.integration.patch(f"/members/{member}", {"active": True})
    badges.assign(member, badge)


def test_the_tier_of_an_inactive_member_cannot_be_set(shop, member):
    tiers = TierSchedule.new(shop, Gold=1000)
    member_id, program = member_id_of(shop, member), tiers.program["loyaltyProgramId"]
    response_while_active = tiers.set(member, "Gold", systemUniqueKey="till-1")
    deactivate(shop, member)
    basic_by_id = {"loyaltyTierId": tiers.id("Basic")}
    paths = (
        (f"/members/{member_id}/loyalty-programs/{program}/tier", basic_by_id),
        (f"/members/by-loyalty-member-id/{member}/tier", {**basic_by_id, "loyaltyProgramId": program}),
    )
    # Without a name, `set` unassigns the tier.
    problems = [tiers.set(member, "Basic", expect=409), tiers.set(member, expect=409)]
    problems += [shop.administration.put(path, body, expect=409) for path, body in paths]
    assert [problem["type"] for problem in problems] == [INACTIVE] * 4
    assert tiers.set(member, "Gold", systemUniqueKey="till-1") == response_while_active
    assert tiers.of(member) == "Gold"


def test_points_of_an_inactive_member_can_only_move_by_wallet(shop, member):
    mint_of_5 = {"amount": 5, "systemUniqueKey": "till-1"}
    path = f"/members/by-loyalty-member-id/{member}"
    response_while_active = shop.administration.post(f"{path}/mint", mint_of_5, expect=200)
    record = deactivate(shop, member)["loyaltyMember"]
    for action in ("mint", "burn"):
        assert shop.administration.post(f"{path}/{action}", {"amount": 1}, expect=409)["type"] == INACTIVE
    # A repeated request gets its response; the key of another amount is refused.
    assert shop.administration.post(f"{path}/mint", mint_of_5, expect=200) == response_while_active
    problem = shop.administration.post(f"{path}/mint", {**mint_of_5, "amount": 6}, expect=409)
    assert problem["type"] == "/problems/key-reused"
    assert shop.balance(member) == 5
    defaults = shop.organization.defaults
    ledger, wallet = f"/ledgers/{defaults.ledger_id}", record["ledgerWalletId"]
    account = f"{ledger}/accounts/{defaults.ledger_account_id}"
    mint_by_wallet = {"amount": 3, "fromWalletId": None, "toWalletId": wallet}
    shop.administration.post(f"{account}/transactions", mint_by_wallet)
    shop.administration.post(f"{account}/wallets/{wallet}/burn", {"amount": 1}, expect=200)
    shop.administration.post(f"{ledger}/wallets/{wallet}/mint", {"amount": 1}, expect=200)
    assert shop.balance(member) == 5 + 3 - 1 + 1


def test_the_progress_of_an_inactive_member_cannot_be_advanced(shop, member):
    mission = create(shop, pointsAccrual=10, goalCount=2)
    advance(shop, member, mission["missionId"], amount=1, systemUniqueKey="till-1")
    deactivate(shop, member)
    assert advance(shop, member, mission["missionId"], amount=1, expect=409)["type"] == INACTIVE
    # A repeated request gets its response and does not advance the progress.
    advance(shop, member, mission["missionId"], amount=1, systemUniqueKey="till-1")
    assert progress(shop, member, mission["missionKey"])["currentCounterCount"] == 1
    assert shop.balance(member) == 0


def test_coupons_of_an_inactive_member_cannot_be_assigned_or_used(shop, member):
    books = CouponBooks(shop.organization)
    book = books.make("A-1", "A-2")
    book_path = f"/members/{member}/coupon-books/{book['couponBookKey']}"
    usage = shop.integration.post(f"{book_path}/assign", {"code": "A-1"}, expect=200)["couponUsage"]
    deactivate(shop, member)
    path, member_field = f"/coupon-books/{book['couponBookId']}", {"memberId": member_id_of(shop, member)}
    coupon_path = f"{path}/coupons/{usage['couponId']}"
    problems = [shop.integration.post(f"{book_path}/{act}", {}, expect=409) for act in ("assign", "use")]
    problems.append(shop.integration.post(f"{book_path}/use", {"bypassUsageRestrictions": True}, expect=409))
    problems.append(shop.administration.post(f"{path}/assign", member_field, expect=409))
    for act in ("assign", "use"):
        problems.append(shop.administration.post(f"{coupon_path}/{act}", member_field, expect=409))
    batch = shop.administration.post(f"{path}/batch-assign", {"items": [member_field]}, expect=200)
    problems += [result["error"] for result in batch["results"]]
    assert [problem["type"] for problem in problems] == [INACTIVE] * 7
    # The earlier assignment can be reverted.
    shop.integration.post(f"/members/{member}/coupon-usages/{usage['couponUsageKey']}/revert", expect=200)


def test_effects_of_the_deactivation_itself_are_skipped(shop, member):
    mission = create(shop, eventType="member-profile-deactivated", goalCount=1, pointsAccrual=10)
    badge, tiers = Badges(shop).create(), TierSchedule.new(shop, Gold=1000)
    book = CouponBooks(shop.organization).make("A-1")
    Badges(shop).assign(member, badge)
    shop.give(member, 50)
    effects = [
        mint(10),
        spend(5),
        assigns(badge),
        unassigns(badge),
        effect("assign-coupon", couponBookKey=book["couponBookKey"]),
        effect("use-coupon", couponBookKey=book["couponBookKey"]),
        effect("set-tier", loyaltyProgramKey=tiers.program["loyaltyProgramKey"], loyaltyTierKey=tiers.key("Gold")),
        effect("advance-mission", missionKey=mission["missionKey"]),
        effect("discount", type="amount", value=5),
        effect("notify", name="gone"),
    ]
    shop.campaign(running(*effects), eventType="member-profile-deactivated")
    deactivate(shop, member)
    # The server has emitted such an event, too; this one returns the outcomes.
    outcomes = shop.track_one(event(member, "member-profile-deactivated"))["effects"]
    # Only the notification is sent.
    assert [outcome["status"] for outcome in outcomes] == ["skipped"] * 9 + ["executed"]
    assert {outcome["error"]["type"] for outcome in outcomes[:9]} == {INACTIVE}
    amounts = [param["value"] for outcome in outcomes[:9] for param in outcome["params"] if param["id"] == "amount"]
    assert set(amounts) == {0}
    assert shop.balance(member) == 50
    assert Badges(shop).balance(member, badge) == 1
    assert tiers.of(member) == "Basic"
    assert progress(shop, member, mission["missionKey"])["currentCounterCount"] == 0
    shop.check_ledger()


def test_an_inactive_sponsor_gets_nothing(shop, member):
    sponsor = shop.member()
    shop.campaign(running(mint(10), mint(3, recipient="sponsor"), spend(1, recipient="sponsor")), eventType=GENERIC)
    shop.give(sponsor, 5)
    deactivate(shop, sponsor)
    for mode in ("dryRun", "authorize", "full"):
        event_of_member = event(member, sponsorLoyaltyMemberId=sponsor)
        _effect_of_member, *effects_of_sponsor = shop.track_one(event_of_member, executionMode=mode)["effects"]
        assert [effect["status"] for effect in effects_of_sponsor] == ["skipped"] * 2, mode
        assert [effect["error"]["type"] for effect in effects_of_sponsor] == [INACTIVE] * 2
    assert shop.balance(sponsor) == 5
    # Only the mode full mints available points for the member.
    assert shop.balance(member) == 10


def test_skipped_effects_for_inactive_members_do_not_count_against_limits(shop, member):
    sponsor = shop.member()
    rule = {"scope": "campaign", "type": "points", "period": "total", "limit": 5}
    shop.campaign(running(mint(3, recipient="sponsor")), eventType=GENERIC, limitRules=[rule])
    deactivate(shop, sponsor)
    result = shop.track_one(event(member, sponsorLoyaltyMemberId=sponsor))
    assert result["limitDiscardedTotalAmount"] == 0
    shop.integration.patch(f"/members/{sponsor}", {"active": True})
    shop.track_one(event(member, sponsorLoyaltyMemberId=sponsor))
    # Only 2 of these 3 points would fit below the limit of 5 if the skipped 3 counted.
    assert shop.balance(sponsor) == 3


def test_an_order_of_an_inactive_member_can_be_undone(shop):
    shop.campaign(running(mint(10)), eventType="member-purchase-order-created")
    shop.campaign(running(mint(1)), eventType="member-purchase-order-cancelled")
    for status in ("cancelled", "rejected", "returned"):
        buyer = shop.member()
        name = f"order-{status}"
        shop.track_one(order(buyer, external_id=name))
        # Only a confirmed order can be returned.
        if status == "returned":
            shop.track_one(order(buyer, status="confirmed", external_id=name))
        assert shop.balance(buyer) == 10
        deactivate(shop, buyer)
        assert shop.expect_refusal(order(buyer)) == INACTIVE
        shop.track_one(order(buyer, status=status, external_id=name))
        assert shop.balance(buyer) == 0
    shop.check_ledger()


def test_an_event_of_an_inactive_member_can_be_cancelled(shop, member):
    shop.campaign(running(mint(10)), eventType=GENERIC)
    result = shop.track_one(event(member))
    deactivate(shop, member)
    shop.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)
    assert shop.balance(member) == 0


def test_points_moved_by_wallet_cause_no_effects_for_an_inactive_member(shop, member):
    # The effect would be these 7 points.
    shop.campaign(running(mint(7)), eventType="ledger-transaction-created")
    record = deactivate(shop, member)["loyaltyMember"]
    defaults = shop.organization.defaults
    path = f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}/transactions"
    body = {"amount": 3, "fromWalletId": None, "toWalletId": record["ledgerWalletId"]}
    shop.administration.post(path, body)
    assert shop.balance(member) == 3


def test_the_enrolment_of_an_inactive_member_is_no_referral(shop):
    # A referral by the enrolment would give 100 points to ben and 50 to eve.
    friends, ben = Friends(shop, eventType="member-created"), shop.member()
    code = friends.code(ben)
    eve = shop.member(active=False, referralCode=code)
    assert (shop.balance(ben), shop.balance(eve)) == (0, 0)
