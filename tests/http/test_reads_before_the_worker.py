"""Points that time has released, cancelled or expired are read the same before the worker settles them and after."""

from __future__ import annotations

from random import Random

import pytest

from tests.builders.points import Points
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import Shop, event

AWAITED_EVENT = {"eventTypes": ["member-generic-event"], "cancelAfter": "P20D"}
# No two moments are a whole number of days apart, so no points become available exactly at one of them.
MOMENTS = ("2026-03-06T10:00", "2026-03-19T10:10", "2026-04-02T10:20", "2026-05-11T10:30", "2026-06-30T10:40")


def balances(clock, points, member):
    """The balances of a member, with pending and expiring points, by both interfaces and by the wallet."""
    record = clock.organization.integration.get("/members/ana", include="expiring")["loyaltyMember"]
    administration_response = clock.organization.administration.get(
        f"/members/{member['memberId']}", include="expiring"
    )
    wallet = points.wallet_of(member["ledgerWalletId"], include="lots")
    # The worker updates the record when it posts.
    del wallet["updatedAt"]
    return record["ledgerBalances"], administration_response["loyalMember"]["ledgerBalances"], wallet


def daily_balances(points, wallet, from_date="2026-03-01"):
    """The balances of the account at the ends of the days from a date to today."""
    path = f"{points.ledger_path}/wallets/{wallet}/daily-balances"
    rows = points.admin.get(path, fromDate=from_date)["results"]
    return [row["amount"] for row in rows if row["ledgerAccountId"] == points.account_id]


def show_time(clock, points, moment):
    """Let the clock show a later time, before the worker has run."""
    points.change(
        "UPDATE organizations SET clock_now = :now WHERE organization_id = :id", now=moment, id=clock.organization.id
    )


def available_mints(points):
    """The moment by transaction id, of the newest mints that are available and not reverted."""
    # Status 2 is reverted.
    mints = [row for row in points.rows() if row["transactionType"] == "mint" and row["status"] != 2]
    return {row["ledgerTransactionId"]: row["availableAt"] for row in mints if row["availability"] == "available"}


def test_points_that_repay_a_debt_do_not_expire_in_daily_balances(clock):
    points = Points.new(clock.organization, overdraftLimit=30, pointTrackingEnabled=True)
    wallet = points.wallet()
    points.burn(wallet, 30, allowOverdraft=True)
    # The debt is 30 until 50 are available on 2 March, of which 20 expire on 4 March. On 5 March 40 are available.
    item = {"fromWalletId": None, "toWalletId": wallet, "amount": 50, "ledgerAccountId": points.account_id}
    terms = {"expirationDate": "2026-03-04T00:00:00Z", "availableAt": "2026-03-02T09:00:00Z"}
    points.admin.post("/ledger-transactions/batch", {"items": [{**item, **terms}]}, expect=200)
    points.mint(wallet, 40, availableAfter="P4D")
    show_time(clock, points, "2026-03-06T09:00:00Z")
    assert daily_balances(points, wallet) == [0, 20, 20, 20 - 20, 40, 40]
    clock.advance("2026-03-06T09:00:01Z")
    assert daily_balances(points, wallet) == [0, 20, 20, 20 - 20, 40, 40]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_reads_of_a_random_history_do_not_depend_on_the_worker(clock, seed):
    random, shop = Random(seed), Shop(clock.organization)
    expiry = {"expiresInMonths": random.randint(1, 3), "expiryRounding": random.choice(["none", "month"])}
    points = Points.new(clock.organization, overdraftLimit=500, **expiry)
    member = clock.organization.member("ana")
    wallet = member["ledgerWalletId"]
    for moment in MOMENTS:
        for _ in range(random.randint(1, 3)):
            points.mint(wallet, random.randint(1, 100), availableAfter=f"P{random.randint(0, 30)}D")
            points.mint(
                wallet, random.randint(1, 100), availableOn=AWAITED_EVENT, availableAfter=random.choice(["P3D", None])
            )
        if random.random() < 0.5:
            shop.track_one(event("ana"))
        amount = random.randint(0, int(points.balance(wallet)))
        if amount:
            points.burn(wallet, amount)
        if random.random() < 0.5:
            points.burn(wallet, points.balance(wallet) + random.randint(1, 100), allowOverdraft=True)
        show_time(clock, points, f"{moment}:00Z")
        balances_before, mints_before = balances(clock, points, member), available_mints(points)
        daily_balances_before = daily_balances(points, wallet)
        # To advance the clock runs the worker.
        clock.advance(f"{moment}:01Z")
        assert balances(clock, points, member) == balances_before
        assert daily_balances(points, wallet) == daily_balances_before
        # The page is shorter by the transactions that the worker posted for expiries and reverts.
        assert available_mints(points).items() <= mints_before.items()
    assert points.verify() == []


@pytest.mark.parametrize("basis", ["balance", "earned"])
def test_a_member_is_read_with_the_tier_of_points_that_have_become_available(clock, basis):
    shop = Shop(clock.organization)
    tiers = TierSchedule.new(shop, policy={"basis": basis}, Gold=1000)
    points, member = Points.default(clock.organization), clock.organization.member("ana")
    points.mint(member["ledgerWalletId"], 1000, availableAfter="P1D")
    points.change(
        "UPDATE organizations SET clock_now = :now WHERE organization_id = :id",
        now="2026-03-02T10:00:00Z",
        id=clock.organization.id,
    )

    def tier_and_points():
        record = shop.integration.get("/members/ana")["loyaltyMember"]
        [status] = record["tierStatus"]
        return tiers.of_record(record), status["tier"]["name"], status["points"], "nextTier" in status

    assert tier_and_points() == ("Gold", "Gold", 1000, False)
    # To advance the clock runs the worker.
    clock.advance("2026-03-02T10:00:01Z")
    assert tier_and_points() == ("Gold", "Gold", 1000, False)
