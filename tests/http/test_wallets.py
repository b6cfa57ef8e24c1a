"""Balances of wallets: their lots by expiry, and the balances of past days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from tests.builders.clock import earlier
from tests.builders.points import Points


@pytest.fixture
def points(organization):
    """The account Stars, which tracks points and has 2 fraction digits."""
    return Points.new(organization, pointTrackingEnabled=True, decimals=2)


NO_LOTS = {"available": 0, "reserved": 0, "pending": 0, "expiring": [], "unlisted": 0, "waiting": []}


def lots_of(points, wallet):
    """The lots of a wallet in the account, as a response has them."""
    return points.wallet_of(wallet, include="lots")["lots"]


def expiry_groups(lots):
    """(moment of expiry or None, available, reserved) of each listed group of lots."""
    return [
        (lot["expiresAt"] and datetime.fromisoformat(lot["expiresAt"]), lot["available"], lot["reserved"])
        for lot in lots["expiring"]
    ]


def test_an_empty_wallet_has_no_lots(points):
    wallet = points.wallet()
    assert "lots" not in points.wallet_of(wallet)
    assert lots_of(points, wallet) == NO_LOTS


def test_a_part_that_wallets_do_not_have_cannot_be_included(points):
    problem = points.admin.get(f"{points.path}/wallets/{points.wallet()}", include="coupons", expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["include"]


def test_lots_are_grouped_by_their_expiry(points):
    now = datetime.now(UTC)
    ana, ben = points.wallet(), points.wallet()
    in_2_days, in_5_days = now + timedelta(days=2), now + timedelta(days=5)
    points.mint(ana, 5, expires_at=in_5_days)
    points.mint(ana, 7, expires_at=in_2_days)
    points.mint(ana, 3, expires_at=in_2_days)
    points.mint(ana, 4, expires_at=now - timedelta(days=1))
    points.mint(ana, Decimal("2.5"))
    points.move(8, source=ana, target=ben, captureMethod="manual")
    lots = lots_of(points, ana)
    # The hold of 8 takes points that expire first. The 4 have expired.
    assert expiry_groups(lots) == [(in_2_days, 7 + 3 - 8, 8), (in_5_days, 5, 0), (None, Decimal("2.5"), 0)]
    assert (lots["available"], lots["reserved"]) == (2 + 5 + Decimal("2.5"), 8)
    assert (lots["pending"], lots["unlisted"]) == (0, 0)
    assert lots_of(points, ben) == {**NO_LOTS, "pending": 8}


def test_points_on_hold_do_not_expire_before_the_hold_ends(points):
    now = datetime.now(UTC)
    ana = points.wallet()
    mint_id = points.mint(ana, 5, expires_at=now + timedelta(days=2))
    points.burn(ana, 3, captureMethod="manual")
    a_minute_ago = now - timedelta(minutes=1)
    points.change(
        "UPDATE ledger_lots SET expires_at = :at WHERE ledger_transaction_id = :id", at=a_minute_ago, id=mint_id
    )
    lots = lots_of(points, ana)
    # Only the 3 on hold remain of the 5.
    assert points.balance(ana) == 3
    assert (expiry_groups(lots), lots["available"]) == ([(a_minute_ago, 0, 3)], 0)


def test_an_idle_balance_expires_as_a_whole_a_month_after_the_last_transaction(organization):
    now = datetime.now(UTC)
    policy = [{"expirationType": "lastTransaction", "period": 1}]
    points = Points.new(organization, expirationPolicies=policy)
    wallet = points.wallet()
    in_2_days = now + timedelta(days=2)
    points.mint(wallet, 5, expires_at=in_2_days)
    points.mint(wallet, 7, expires_at=now + timedelta(days=90))
    points.mint(wallet, 11)
    dated_group, idle_group = expiry_groups(lots_of(points, wallet))
    assert dated_group == (in_2_days, 5, 0)
    # The others expire a month after the last transaction, before the 90 days.
    expiry_of_idle_points, *available_and_reserved = idle_group
    assert available_and_reserved == [7 + 11, 0]
    assert timedelta(days=27) < expiry_of_idle_points - now < timedelta(days=32)
    points.change(
        "UPDATE ledger_balances SET last_transaction_date = :at WHERE wallet_id = :wallet",
        at=now - timedelta(days=40),
        wallet=wallet,
    )
    assert lots_of(points, wallet) == NO_LOTS


def test_points_of_an_account_without_tracking_do_not_expire(organization):
    points = Points.new(organization)
    wallet = points.wallet()
    points.mint(wallet, 10)
    points.burn(wallet, 4, captureMethod="manual")
    assert expiry_groups(lots_of(points, wallet)) == [(None, 10 - 4, 4)]


def test_a_ledger_returns_the_lots_of_every_account(organization, points):
    now = datetime.now(UTC)
    member = organization.member()
    wallet, in_2_days = member["ledgerWalletId"], now + timedelta(days=2)
    moons = Points.new(organization, name="Moons", pointTrackingEnabled=True)
    points.mint(wallet, 5, expires_at=in_2_days)
    moons.mint(wallet, 6, expires_at=in_2_days)
    moons.burn(wallet, 2, captureMethod="manual")
    wallets = points.admin.get(f"{points.ledger_path}/wallets/{wallet}", include="lots")["wallets"]
    groups_by_account = {record["ledgerAccountName"]: expiry_groups(record["lots"]) for record in wallets}
    # "Points" is the default account of the organization, "Stars" the account of the fixture.
    assert groups_by_account == {"Points": [], "Stars": [(in_2_days, 5, 0)], "Moons": [(in_2_days, 6 - 2, 2)]}
    assert "lots" not in points.admin.get(f"{points.ledger_path}/wallets/{wallet}")["wallets"][0]


@pytest.mark.slow
def test_a_wallet_of_100001_lots_lists_the_first_100(points):
    now = datetime.now(UTC)
    wallet = points.wallet()
    mint_id = points.mint(wallet, 1)
    # 100,000 more lots of 1 point, which expire in a day, each a second after the one before.
    points.change(
        """INSERT INTO ledger_lots (organization_id, wallet_id, ledger_account_id, ledger_transaction_id, amount,
               remaining, expires_at, created_at)
           SELECT organization_id, wallet_id, ledger_account_id, ledger_transaction_id, 1, 1,
               CAST(:at AS timestamptz) + n * interval '1 second', created_at
           FROM ledger_lots, generate_series(1, 100000) n WHERE ledger_transaction_id = :id""",
        at=now + timedelta(days=1),
        id=mint_id,
    )
    points.change("UPDATE ledger_balances SET current_balance = 100001 WHERE wallet_id = :wallet", wallet=wallet)
    points.change("ANALYZE ledger_lots")
    points.burn(wallet, 1)
    lots = lots_of(points, wallet)
    assert len(lots["expiring"]) == 100
    # The burn took the lot that expires first.
    assert expiry_groups(lots)[0] == (now + timedelta(days=1, seconds=2), 1, 0)
    assert (lots["available"], lots["unlisted"]) == (100_000, 100_000 - 100)
    points.burn(wallet, 90)
    lots_of_burn = points.rows(limit=1, include="lots")[0]["lots"]
    assert (lots_of_burn["count"], len(lots_of_burn["consumed"])) == (90, 90)
    points.burn(wallet, 150)
    lots_of_burn = points.rows(limit=1, include="lots")[0]["lots"]
    assert (lots_of_burn["count"], len(lots_of_burn["consumed"])) == (150, 100)


def date_back(points, *transaction_ids, days):
    """Date transactions, with their lots and captures, back by a number of days."""
    for table, columns in (
        ("ledger_transactions", ("created_at", "updated_at", "captured_at")),
        ("ledger_lots", ("created_at",)),
    ):
        changes = ", ".join(f"{name} = {earlier(name, ':ago')}" for name in columns)
        points.change(
            f"UPDATE {table} SET {changes} WHERE ledger_transaction_id = ANY(:ids)",
            ago=f"{days} days",
            ids=list(transaction_ids),
        )


def read_daily_balances(points, wallet, *, expect=200, **query):
    """The response with the daily balances of a wallet, by default those of 30 days."""
    return points.admin.get(f"{points.ledger_path}/wallets/{wallet}/daily-balances", expect=expect, **query)


def daily_amounts(points, wallet, *, days):
    """The balances of the account on so many days up to today, oldest first."""
    now = datetime.now(UTC)
    query = {"fromDate": (now - timedelta(days=days - 1)).date().isoformat()}
    rows = read_daily_balances(points, wallet, **query)["results"]
    return [row["amount"] for row in rows if row["ledgerAccountId"] == points.account_id]


def test_daily_balances_have_a_row_for_each_account_and_day(organization, points):
    wallet = points.wallet()
    mint_id = points.mint(wallet, 10)
    date_back(points, mint_id, days=3)
    points.burn(wallet, 4)
    rows = read_daily_balances(points, wallet)["results"]
    # 30 days of the default account, then 30 days of Stars.
    assert len(rows) == 30 + 30
    assert {row["ledgerAccountId"] for row in rows[:30]} == {organization.defaults.ledger_account_id}
    today = datetime.now(UTC).date()
    assert [row["date"] for row in rows[:30]] == [(today - timedelta(days=n)).isoformat() for n in range(29, -1, -1)]
    assert rows[-1] == {
        "ledgerAccountId": points.account_id,
        "ledgerAccountKey": points.account["ledgerAccountKey"],
        "isDefaultAccount": False,
        "date": today.isoformat(),
        "amount": 10 - 4,
    }
    assert [row["amount"] for row in rows[30:]] == [0] * 26 + [10, 10, 10, 10 - 4]


def test_every_kind_of_movement_counts_on_its_day(points):
    ana, ben = points.wallet(), points.wallet()
    date_back(points, points.mint(ana, 100), days=9)
    transfer_id = points.move(30, source=ana, target=ben)[0]["ledgerTransactionId"]
    date_back(points, transfer_id, days=7)
    hold_id = points.burn(ana, 20, captureMethod="manual")[0]["ledgerTransactionId"]
    points.capture((hold_id, 15))
    # A hold counts on the day of its capture: it was of 6 days ago, the capture 4 days ago.
    points.change(
        f"UPDATE ledger_transactions SET created_at = {earlier('created_at', ':held')},"
        f" captured_at = {earlier('captured_at', ':captured')} WHERE ledger_transaction_id = :id",
        held="6 days",
        captured="4 days",
        id=hold_id,
    )
    revert_id = points.revert(hold_id)[0]["ledgerTransactionId"]
    date_back(points, revert_id, days=2)
    # 100 were minted 9 days ago, 30 transferred 7 days ago, 15 burned 4 days ago, which were reverted 2 days ago.
    assert daily_amounts(points, ana, days=11) == [0, 100, 100, 70, 70, 70, 55, 55, 70, 70, 70]
    assert daily_amounts(points, ben, days=11) == [0, 0, 0, 30, 30, 30, 30, 30, 30, 30, 30]
    assert points.verify() == []


@pytest.mark.parametrize("is_posted", [False, True])
def test_points_count_until_the_day_of_their_expiry_whether_it_is_posted_or_not(points, is_posted):
    now = datetime.now(UTC)
    wallet = points.wallet()
    # The days from now until the points of each mint expire.
    days_to_expiry = {points.mint(wallet, 10): -5, points.mint(wallet, 7): -2, points.mint(wallet, 3): 5}
    date_back(points, *days_to_expiry, days=9)
    for mint_id, days in days_to_expiry.items():
        points.change(
            "UPDATE ledger_lots SET expires_at = :at WHERE ledger_transaction_id = :id",
            at=now + timedelta(days=days),
            id=mint_id,
        )
    if is_posted:
        # Any movement posts the expiries: three mints, two expiries and the burn of 0.
        points.burn(wallet, 0)
        assert len(points.rows()) == 6
    # 10 + 7 + 3 from 9 days ago, 7 + 3 from 5 days ago, and 3 from 2 days ago.
    assert daily_amounts(points, wallet, days=11) == [0, 20, 20, 20, 20, 10, 10, 10, 3, 3, 3]


@pytest.mark.parametrize("is_posted", [False, True])
def test_an_idle_balance_counts_until_its_expiry_whether_it_is_posted_or_not(organization, is_posted):
    points = Points.new(organization, expirationPolicies=[{"expirationType": "lastTransaction", "period": 1}])
    wallet = points.wallet()
    date_back(points, points.mint(wallet, 10), days=34)
    points.change(
        f"UPDATE ledger_balances SET last_transaction_date = {earlier('last_transaction_date', ':ago')}"
        " WHERE wallet_id = :wallet",
        ago="34 days",
        wallet=wallet,
    )
    if is_posted:
        points.burn(wallet, 0)
        assert points.rows()[1]["description"] == "Expired"
    balances = daily_amounts(points, wallet, days=36)
    # The mint was 34 days ago, on the second of the 36 days.
    assert (balances[0], balances[1], balances[-1]) == (0, 10, 0)
    # The expiry is one month, 28 to 31 days, after the last transaction.
    assert balances.count(10) in (28, 29, 30, 31)
    # It never increases.
    assert sorted(balances[1:], reverse=True) == balances[1:]


def test_points_that_a_revert_gives_back_after_their_expiry_do_not_count(points):
    now = datetime.now(UTC)
    wallet = points.wallet()
    mint_id = points.mint(wallet, 10)
    burn_id = points.burn(wallet, 10)[0]["ledgerTransactionId"]
    date_back(points, mint_id, days=9)
    date_back(points, burn_id, days=8)
    four_days_ago = now - timedelta(days=4)
    points.change(
        "UPDATE ledger_lots SET expires_at = :at WHERE ledger_transaction_id = :id", at=four_days_ago, id=mint_id
    )
    points.revert(burn_id)
    # Minted 9 days ago and burned 8 days ago.
    assert daily_amounts(points, wallet, days=11) == [0, 10, *[0] * 9]
    assert points.verify() == []


def test_debt_is_not_part_of_a_balance(organization):
    points = Points.new(organization, overdraftLimit=50)
    wallet = points.wallet()
    date_back(points, points.mint(wallet, 10), days=5)
    date_back(points, points.burn(wallet, 30, allowOverdraft=True)[0]["ledgerTransactionId"], days=4)
    # The debt is 20 until this mint repays it.
    date_back(points, points.mint(wallet, 25), days=2)
    assert daily_amounts(points, wallet, days=7) == [0, 10, 0, 0, 5, 5, 5]


def test_daily_balances_cover_the_requested_days(points):
    wallet = points.wallet()
    today = datetime.now(UTC).date()

    def dates(**query):
        """The days of the daily balances, as texts."""
        rows = read_daily_balances(points, wallet, **query)["results"]
        return sorted({row["date"] for row in rows})

    day = timedelta(days=1)
    assert dates(fromDate=today, toDate=today) == [today.isoformat()]
    assert dates(fromDate=today, toDate=today + 5 * day) == [today.isoformat()]
    assert dates(fromDate=today + day, toDate=today + 5 * day) == []
    thirty_days = dates(toDate="2024-03-01")
    assert (thirty_days[0], thirty_days[-1], len(thirty_days)) == ("2024-02-01", "2024-03-01", 30)
    assert len(dates(fromDate=today - 365 * day)) == 366
    assert dates(toDate="0001-01-02") == ["0001-01-01", "0001-01-02"]
    assert dates(fromDate="9998-12-31", toDate="9999-12-31") == []


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        # More than 366 days.
        ({"fromDate": "2023-03-01", "toDate": "2024-03-01"}, "fromDate"),
        ({"fromDate": "2024-03-02", "toDate": "2024-03-01"}, "fromDate"),
        ({"fromDate": "9999-12-31"}, "fromDate"),
        ({"fromDate": "2024-02-30"}, "fromDate"),
        ({"toDate": "yesterday"}, "toDate"),
        ({"day": "2024-02-02"}, "day"),
    ],
)
def test_invalid_days_of_daily_balances_are_refused(points, query, parameter):
    problem = read_daily_balances(points, points.wallet(), expect=400, **query)
    assert [fault["parameter"] for fault in problem["errors"]] == [parameter]


def test_wallets_of_another_organization_are_not_found(points, other_organization):
    other_wallet = other_organization.member()["ledgerWalletId"]
    read_daily_balances(points, other_wallet, expect=404)
    points.admin.get(f"{points.path}/wallets/{other_wallet}", include="lots", expect=404)
