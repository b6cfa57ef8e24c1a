"""The expiring points of a member's balances, as the member's record shows them."""

from __future__ import annotations

from random import Random

import pytest

from tests.builders.points import Points
from tests.builders.test_clocks import Clock
from tests.builders.tracking import Shop


@pytest.fixture
def clock(api):
    """A clock at 10 March 2025, 10:00 in Madrid."""
    return Clock.new(api, starts_at="2025-03-10T09:00:00Z")


@pytest.fixture
def ana(clock):
    """The wallet of the member ana."""
    return clock.organization.member("ana")["ledgerWalletId"]


def read_expiring(clock, points, member="ana"):
    """(amount, moment, amounts by month): what expires next in an account, and what expires in each month."""
    record = clock.organization.integration.get(f"/members/{member}", include="expiring")["loyaltyMember"]
    [expiring_amounts] = [
        ledger_balance["expiring"]
        for ledger_balance in record["ledgerBalances"]
        if ledger_balance["ledgerAccountId"] == points.account_id
    ]
    next_expiry = expiring_amounts.get("next", {})
    assert len(expiring_amounts["byMonth"]) == 12
    months = {month["month"]: month["amount"] for month in expiring_amounts["byMonth"] if month["amount"]}
    return next_expiry.get("amount"), next_expiry.get("expiresAt"), months


def test_lots_that_expire_at_the_same_moment_are_shown_as_one_amount(clock, ana):
    # The first quarter after 12 months ends on 31 March 2026 in Madrid, the second one on 30 June.
    points = Points.new(clock.organization, expiresInMonths=12, expiryRounding="quarter")
    points.mint(ana, 100)
    points.mint(ana, 250)
    clock.advance("2025-06-10T08:00:00Z")
    points.mint(ana, 60)
    clock.advance("2026-03-01T09:00:00Z")
    points.burn(ana, 120)
    # The burn takes points that expire first: 100 + 250 - 120 = 230.
    assert read_expiring(clock, points) == (230, "2026-03-31T22:00:00Z", {"2026-03": 230, "2026-06": 60})
    clock.advance("2026-03-31T22:00:00Z")
    assert read_expiring(clock, points) == (60, "2026-06-30T22:00:00Z", {"2026-06": 60})


def test_both_interfaces_show_expiring_points_only_on_request(clock, ana):
    points = Points.new(clock.organization, expiresInMonths=1)
    points.mint(ana, 100)
    record = clock.organization.integration.get("/members/ana")["loyaltyMember"]
    assert [balance.keys() & {"expiring"} for balance in record["ledgerBalances"]] == [set(), set()]
    response_without_balance = clock.organization.integration.get(
        "/members/ana", include="expiring", includeBalance=False
    )
    assert "ledgerBalances" not in response_without_balance["loyaltyMember"]
    member_record = clock.organization.integration.get("/members/ana", include="expiring")["loyaltyMember"]
    for path in (f"/members/{record['memberId']}", "/members/by-loyalty-member-id/ana"):
        administration_record = clock.organization.administration.get(path, include="expiring")["loyalMember"]
        assert administration_record["ledgerBalances"] == member_record["ledgerBalances"]
    problem = clock.organization.integration.get("/members/ana", include="lots", expect=400)
    assert problem["errors"][0]["parameter"] == "include"


def test_points_that_never_expire_are_not_shown(clock, ana):
    points = Points.new(clock.organization, pointTrackingEnabled=True)
    points.mint(ana, 100)
    assert read_expiring(clock, points) == (None, None, {})


def test_the_whole_balance_is_shown_as_expiring_if_it_expires_by_inactivity(clock, ana):
    policy = {"expirationType": "inactivity", "period": 6, "rounding": "month"}
    points = Points.new(clock.organization, expiresInMonths=5, expirationPolicies=[policy])
    points.mint(ana, 100, externalEventDate="2025-03-01T09:00:00Z")
    clock.advance("2025-03-11T09:00:00Z")
    points.mint(ana, 10)
    points.mint(ana, 1, countsAsActivity=False)
    # 5 months after the first mint the 100 expire, 10 days later the 10 + 1.
    assert read_expiring(clock, points) == (100, "2025-08-01T08:00:00Z", {"2025-08": 100 + 10 + 1})
    # 6 months after 11 March, at the end of September.
    idle_points = Points.new(clock.organization, expirationPolicies=[policy])
    idle_points.mint(ana, 7)
    assert read_expiring(clock, idle_points) == (7, "2025-09-30T22:00:00Z", {"2025-09": 7})


def test_points_on_hold_are_not_shown_as_expiring(clock, ana):
    points = Points.new(clock.organization, expiresInMonths=2)
    points.mint(ana, 100)
    hold = points.burn(ana, 30, captureMethod="manual")[0]["ledgerTransactionId"]
    # 100 - 30 points expire two months after 10 March, at 10:00 in Madrid.
    assert read_expiring(clock, points) == (70, "2025-05-10T08:00:00Z", {"2025-05": 70})
    points.revert(hold)
    assert read_expiring(clock, points) == (100, "2025-05-10T08:00:00Z", {"2025-05": 100})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_months_add_up_to_the_balance_whether_or_not_the_job_has_run(clock, ana, seed):
    """Every balance of a random history is shown the same before and after its expiries are posted."""
    random, shop = Random(seed), Shop(clock.organization)
    policies = [{"expirationType": "inactivity", "period": random.randint(2, 5), "rounding": "month"}]
    settings = {"expiresInMonths": random.randint(1, 11), "expiryRounding": random.choice(["none", "month", "quarter"])}
    points = Points.new(clock.organization, **settings, expirationPolicies=random.choice([[], policies]))
    day = 9
    for month in ("2025-04", "2025-06", "2025-07", "2025-11"):
        for _ in range(random.randint(1, 4)):
            points.mint(ana, random.randint(1, 100), countsAsActivity=random.random() < 0.5)
        amount = random.randint(0, int(points.balance(ana)))
        points.burn(ana, amount, countsAsActivity=random.random() < 0.5)
        # The clock shows a later time, and no job has run.
        day += 1
        points.change(
            "UPDATE organizations SET clock_now = :now WHERE organization_id = :id",
            now=f"{month}-{day}T09:00:00Z",
            id=clock.organization.id,
        )
        expiring = read_expiring(clock, points)
        wallet_balance, member_balance = points.balance(ana), shop.balance("ana", points.account_id)
        _, _, amounts_by_month = expiring
        assert sum(amounts_by_month.values()) == wallet_balance == member_balance
        # The advance runs the job.
        clock.advance(f"{month}-{day}T09:00:01Z")
        assert read_expiring(clock, points) == expiring
        assert (points.balance(ana), shop.balance("ana", points.account_id)) == (wallet_balance, member_balance)
    assert points.verify() == []
