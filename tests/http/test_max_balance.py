"""The maximum balance of an account cuts effects and rewards; requests that would exceed it are refused."""

from __future__ import annotations

import pytest

from tests.builders import missions
from tests.builders.campaigns import mint
from tests.builders.coupons import CouponBooks
from tests.builders.imports import Imports, status_read_done_failed
from tests.builders.points import Points
from tests.builders.referrals import Friends
from tests.builders.tracking import GENERIC, Shop, event, running

BALANCE_LIMIT = "/problems/balance-limit"


@pytest.fixture
def shop(organization):
    """A shop whose ledger is verified after the test."""
    shop = Shop(organization)
    yield shop
    shop.check_ledger()


@pytest.fixture
def member(shop):
    """The loyaltyMemberId of a new member, ana."""
    return shop.member(loyaltyMemberId="ana")


def set_max_balance(shop, max_balance):
    """Give the default account a maximum balance; returns the account."""
    defaults = shop.organization.defaults
    path = f"/ledgers/{defaults.ledger_id}/accounts"
    [account] = [account for account in shop.administration.get(path)["results"] if account["isDefaultAccount"]]
    body = {name: account[name] for name in ("name", "active", "isRevolving", "chainSyncEnabled")}
    response = shop.administration.put(
        f"{path}/{account['ledgerAccountId']}", {**body, "maxBalance": max_balance}, expect=200
    )
    assert response["ledgerAccount"]["maxBalance"] == max_balance
    return response["ledgerAccount"]


def outcome_of(effect):
    """The status of a mint, its amount, the requested amount if it was cut, and the problem that cut it."""
    params = {param["id"]: param["value"] for param in effect["params"]}
    return effect["status"], params["amount"], params.get("requestedAmount"), effect.get("error", {}).get("type")


def wallet_of(shop, member):
    return shop.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerWalletId"]


def test_an_effect_mints_up_to_the_maximum_minus_balance_and_pending_points(shop, member):
    """With a balance of 900 and 60 pending points, at most 1,000 leave 40 of 100 points."""
    set_max_balance(shop, 1000)
    shop.give(member, 900)
    defaults, wallet = shop.organization.defaults, wallet_of(shop, member)
    body = {"amount": 60, "fromWalletId": None, "toWalletId": wallet, "captureMethod": "manual"}
    path = f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}"
    hold_id = shop.administration.post(f"{path}/transactions", body)["transactions"][0]["ledgerTransactionId"]
    shop.campaign(running(mint(100), mint(1)), eventType=GENERIC)
    [dry_result] = shop.track(event(member), executionMode="dryRun")
    expected_outcomes = [("partial", 40, 100, BALANCE_LIMIT), ("skipped", 0, 1, BALANCE_LIMIT)]
    assert [outcome_of(effect) for effect in dry_result["effects"]] == expected_outcomes
    result = shop.track_one(event(member))
    assert [outcome_of(effect) for effect in result["effects"]] == expected_outcomes
    # This amount is what limits of campaigns discard.
    assert result["limitDiscardedTotalAmount"] == 0
    assert result["effects"][0]["error"]["available"] == 40
    assert shop.balance(member) == 900 + 40
    # The pending points can be captured, because they were counted before.
    shop.administration.post(f"{path}/captures", {"transactions": [{"ledgerTransactionId": str(hold_id)}]}, expect=200)
    assert shop.balance(member) == 940 + 60
    shop.take(member, 30)
    assert [outcome_of(effect) for effect in shop.track_one(event(member))["effects"]] == [
        ("partial", 30, 100, BALANCE_LIMIT),
        ("skipped", 0, 1, BALANCE_LIMIT),
    ]


def test_waiting_points_count_towards_the_maximum_at_once(shop, member):
    """With a balance of 900 and 60 points that wait for a moment, at most 1,000 leave 40 of 100 points."""
    set_max_balance(shop, 1000)
    shop.give(member, 900)
    shop.give(member, 60, availableAt="2999-01-01T00:00:00Z")
    shop.campaign(running(mint(100)), eventType=GENERIC)
    [effect] = shop.track_one(event(member))["effects"]
    assert outcome_of(effect) == ("partial", 40, 100, BALANCE_LIMIT)
    # The waiting points are not in the balance.
    assert shop.balance(member) == 900 + 40
    problem = shop.administration.post(f"/members/by-loyalty-member-id/{member}/mint", {"amount": 1}, expect=409)
    assert (problem["type"], problem["available"]) == (BALANCE_LIMIT, 0)


def test_the_maximum_also_cuts_authorized_effects(shop, member):
    set_max_balance(shop, 150)
    shop.campaign(running(mint(100)), eventType=GENERIC)
    effects = [shop.track_one(event(member), executionMode="authorize")["effects"][0] for _ in range(3)]
    assert [outcome_of(effect) for effect in effects] == [
        ("authorized", 100, None, None),
        ("partial", 50, 100, BALANCE_LIMIT),
        ("skipped", 0, 100, BALANCE_LIMIT),
    ]


def test_a_limit_of_the_campaign_counts_only_the_minted_points(shop, member):
    set_max_balance(shop, 70)
    limits = {"pointsMonthlyLimitPerMember": 80, "allowPartialApplicationOnLimit": True}
    shop.campaign(running(mint(100)), eventType=GENERIC, **limits)
    [effect] = shop.track_one(event(member))["effects"]
    assert outcome_of(effect) == ("partial", 70, 100, BALANCE_LIMIT)
    shop.take(member, 70)
    limited_result = shop.track_one(event(member))
    # The campaign has 80 - 70 left.
    assert outcome_of(limited_result["effects"][0]) == ("partial", 10, 100, "/problems/limit-reached")
    assert limited_result["limitDiscardedTotalAmount"] == 100 - 10


@pytest.mark.parametrize("way", ["member", "wallet", "transaction", "batch", "transfer"])
def test_requests_above_the_maximum_are_refused(shop, member, way):
    set_max_balance(shop, 100)
    shop.give(member, 70)
    ben = shop.member()
    shop.give(ben, 50)
    defaults, wallet = shop.organization.defaults, wallet_of(shop, member)
    account = f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}"

    def credit(amount, *, is_refused):
        """Credit an amount to the member in the way of the test; return the response."""
        source = wallet_of(shop, ben) if way == "transfer" else None
        movement = {"amount": amount, "fromWalletId": source, "toWalletId": wallet}
        if way == "member":
            path = f"/members/by-loyalty-member-id/{member}/mint"
            return shop.administration.post(path, {"amount": amount}, expect=409 if is_refused else 200)
        if way == "wallet":
            path = f"/ledgers/{defaults.ledger_id}/wallets/{wallet}/mint"
            return shop.administration.post(path, {"amount": amount}, expect=409 if is_refused else 200)
        if way == "batch":
            item = {"ledgerId": defaults.ledger_id, "ledgerAccountId": defaults.ledger_account_id, **movement}
            return shop.administration.post("/ledger-transactions/batch", {"items": [item]}, expect=200)
        return shop.administration.post(f"{account}/transactions", movement, expect=409 if is_refused else 201)

    # 70 + 31 would exceed the maximum of 100.
    response = credit(31, is_refused=True)
    problem = response["failed"][0]["error"] if way == "batch" else response
    assert (problem["type"], problem["available"]) == (BALANCE_LIMIT, 30)
    assert problem["detail"] == "A wallet may hold at most 100; this one holds 70, including pending points."
    credit(30, is_refused=False)
    assert shop.balance(member) == 70 + 30


def test_a_transfer_to_be_captured_counts_towards_the_maximum_at_once(shop, member):
    set_max_balance(shop, 100)
    ben = shop.member()
    shop.give(ben, 100)
    defaults = shop.organization.defaults
    path = f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}/transactions"
    wallets = {"fromWalletId": wallet_of(shop, ben), "toWalletId": wallet_of(shop, member)}
    shop.administration.post(path, {"amount": 60, **wallets, "captureMethod": "manual"})
    shop.administration.post(path, {"amount": 40, **wallets, "captureMethod": "manual"})
    # 60 + 40 reach the maximum.
    problem = shop.administration.post(f"/members/by-loyalty-member-id/{member}/mint", {"amount": 1}, expect=409)
    assert (problem["type"], problem["available"]) == (BALANCE_LIMIT, 0)


def test_an_overdraft_increases_the_amount_that_can_be_credited(organization):
    points = Points.new(organization, overdraftLimit=50, maxBalance=100)
    ana = points.wallet()
    points.burn(ana, 30, allowOverdraft=True)
    # 30 repay the overdraft, 100 reach the maximum.
    problem = points.move(131, target=ana, expect=409)
    assert (problem["type"], problem["available"]) == (BALANCE_LIMIT, 30 + 100)
    points.move(130, target=ana)
    assert points.balance(ana) == 100


def test_reverts_and_imports_and_a_lowered_maximum_leave_balances_above_the_maximum(shop, member):
    set_max_balance(shop, 100)
    shop.give(member, 100)
    burn = shop.take(member, 60)
    shop.give(member, 60)
    defaults = shop.organization.defaults
    path = f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}/transactions"
    shop.administration.post(f"{path}/{burn['ledgerTransactionId']}/revert", {}, expect=200)
    assert shop.balance(member) == 100 + 60
    balances_import = Imports(shop.organization).run("loyaltyMemberId,amount\nana,200\n", kind="balances")
    assert status_read_done_failed(balances_import) == ("done", 1, 1, 0)
    assert shop.balance(member) == 160 + 200
    set_max_balance(shop, 10)
    assert shop.balance(member) == 360
    problem = shop.administration.post(f"/members/by-loyalty-member-id/{member}/mint", {"amount": 1}, expect=409)
    assert (problem["type"], problem["available"]) == (BALANCE_LIMIT, 0)
    # Without a maximum.
    set_max_balance(shop, None)
    shop.give(member, 1000)
    assert shop.balance(member) == 360 + 1000


def test_the_reward_of_a_mission_is_cut_at_the_maximum_balance(shop, member):
    set_max_balance(shop, 120)
    missions.create(shop, pointsAccrual=100, goalCount=1)
    rewards = [shop.track_one(event(member))["missions"][0]["rewards"][0] for _ in range(3)]
    assert [
        (reward["status"], reward["amount"], reward.get("requestedAmount"), reward.get("error", {}).get("type"))
        for reward in rewards
    ] == [
        ("executed", 100, None, None),
        ("partial", 20, 100, BALANCE_LIMIT),
        ("failed", 0, 100, BALANCE_LIMIT),
    ]
    assert shop.balance(member) == 120


def test_the_reward_of_a_referral_is_cut_at_the_maximum_balance(shop):
    # The program gives the referrer 100 points for each referred member.
    friends, ana = Friends(shop, referrerPointsAccrual=100), shop.member()
    set_max_balance(shop, 120)
    [code] = friends.codes(ana)
    outcomes = []
    for _ in range(3):
        referral_event = event(shop.member(), payload={"referralCode": code["code"]})
        rewards = shop.track_one(referral_event)["referrals"][0]["rewards"]
        [referrer_reward] = [reward for reward in rewards if reward["recipient"] == "referrer"]
        outcomes.append((referrer_reward["status"], referrer_reward["points"], referrer_reward.get("requestedPoints")))
    assert outcomes == [("executed", 100, None), ("partial", 20, 100), ("skipped", 0, 100)]
    assert shop.balance(ana) == 120
    assert [row.referrer_points for row in shop.rows("referral_logs", "referrer_points", order="referral_log_id")] == [
        100,
        20,
        0,
    ]


def test_a_coupon_whose_points_would_exceed_the_maximum_is_refused(shop, member):
    set_max_balance(shop, 10)
    book = CouponBooks(shop.organization).make(type="codeless")
    path = f"/members/{member}/coupon-books/{book['couponBookKey']}/assign"
    # A negative price mints points: 11 would exceed the maximum of 10.
    assert shop.integration.post(path, {"pointsOverride": -11}, expect=409)["type"] == BALANCE_LIMIT
    shop.integration.post(path, {"pointsOverride": -10}, expect=200)
    assert shop.balance(member) == 10


def test_a_simulation_reports_the_points_above_the_maximum(shop, member):
    set_max_balance(shop, 60)
    shop.campaign(running(mint(100)), eventType="member-purchase-order-created")
    body = {"loyaltyMemberId": member, "order": {"total": 10}}
    [account] = shop.integration.post("/simulations", body, expect=200)["simulation"]["earn"]["accounts"]
    assert (account["available"], account["discarded"]) == (60, 100 - 60)
