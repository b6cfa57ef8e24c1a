"""Balances of wallets: their lots by expiry, and the balances of past days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from tests.builders.clock import earlier
from tests.builders.points import Points


@pytest.fixture
def points(organization):
    return Points.new(organization, pointTrackingEnabled=True, decimals=2)


NO_LOTS = {"available": 0, "reserved": 0, "pending": 0, "expiring": [], "unlisted": 0, "waiting": []}


def lots_of(points, wallet):
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
    points.admin.get(f"{points.path}/wallets/{wallet}", include="coupons", expect=400)


def test_lots_are_grouped_by_their_expiry(points):
    now = datetime.now(UTC)
    ana, ben = points.wallet(), points.wallet()
    soon, later = now + timedelta(days=2), now + timedelta(days=5)
    for amount, expires_at in ((5, later), (7, soon), (3, soon), (4, now - timedelta(days=1))):
        points.mint(ana, amount, expires_at=expires_at)
    points.mint(ana, Decimal("2.5"))
    points.move(8, source=ana, target=ben, captureMethod="manual")
    lots = lots_of(points, ana)
    assert expiry_groups(lots) == [(soon, 2, 8), (later, 5, 0), (None, Decimal("2.5"), 0)]
    assert (lots["available"], lots["reserved"], lots["pending"], lots["unlisted"]) == (Decimal("9.5"), 8, 0, 0)
    assert lots_of(points, ben) == {**NO_LOTS, "pending": 8}


def test_points_on_hold_do_not_expire_before_the_hold_ends(points):
    now = datetime.now(UTC)
    ana = points.wallet()
    mint_id = points.mint(ana, 5, expires_at=now + timedelta(days=2))
    points.burn(ana, 3, captureMethod="manual")
    expiry = now - timedelta(minutes=1)
    points.change("UPDATE ledger_lots SET expires_at = :at WHERE ledger_transaction_id = :id", at=expiry, id=mint_id)
    lots = lots_of(points, ana)
    assert (points.balance(ana), expiry_groups(lots), lots["available"]) == (3, [(expiry, 0, 3)], 0)


def test_an_idle_balance_expires_as_a_whole_a_month_after_the_last_transaction(organization):
    now = datetime.now(UTC)
    policy = [{"expirationType": "lastTransaction", "period": 1}]
    points = Points.new(organization, expirationPolicies=policy)
    wallet = points.wallet()
    soon = now + timedelta(days=2)
    points.mint(wallet, 5, expires_at=soon)
    points.mint(wallet, 7, expires_at=now + timedelta(days=90))
    points.mint(wallet, 11)
    [first, rest] = expiry_groups(lots_of(points, wallet))
    assert first == (soon, 5, 0)
    assert rest[1:] == (18, 0)
    assert timedelta(days=27) < rest[0] - now < timedelta(days=32)
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
    assert expiry_groups(lots_of(points, wallet)) == [(None, 6, 4)]


def test_a_ledger_returns_the_lots_of_every_account(organization, points):
    now = datetime.now(UTC)
    member = organization.member()
    wallet, soon = member["ledgerWalletId"], now + timedelta(days=2)
    moons = Points.new(organization, name="Moons", pointTrackingEnabled=True)
    points.mint(wallet, 5, expires_at=soon)
    moons.mint(wallet, 6, expires_at=soon)
    moons.burn(wallet, 2, captureMethod="manual")
    wallets = points.admin.get(f"{points.ledger_path}/wallets/{wallet}", include="lots")["wallets"]
    groups_by_account = {w["ledgerAccountName"]: expiry_groups(w["lots"]) for w in wallets}
    # "Points" is the default account of the organization, "Stars" the account of the fixture.
    assert groups_by_account == {"Points": [], "Stars": [(soon, 5, 0)], "Moons": [(soon, 4, 2)]}
    assert "lots" not in points.admin.get(f"{points.ledger_path}/wallets/{wallet}")["wallets"][0]


@pytest.mark.slow
def test_a_wallet_of_100001_lots_lists_the_first_100(points):
    now = datetime.now(UTC)
    wallet = points.wallet()
    mint_id = points.mint(wallet, 1)
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
    points.burn(wallet, 90)
    assert len(lots["expiring"]) == 100
    assert expiry_groups(lots)[0] == (now + timedelta(days=1, seconds=2), 1, 0)
    assert (lots["available"], lots["unlisted"]) == (100000, 99900)
    row = points.rows(limit=1, include="lots")[0]["lots"]
    assert (row["count"], len(row["consumed"])) == (90, 90)
    points.burn(wallet, 150)
    row = points.rows(limit=1, include="lots")[0]["lots"]
    assert (row["count"], len(row["consumed"])) == (150, 100)


def shift(points, days, *transaction_ids):
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


def read_daily_balances(points, wallet, expect=200, **query):
    return points.admin.get(f"{points.ledger_path}/wallets/{wallet}/daily-balances", expect=expect, **query)


def amounts(points, wallet, days):
    """The balances of the account on the last days, oldest first."""
    now = datetime.now(UTC)
    query = {"fromDate": (now - timedelta(days=days - 1)).date().isoformat()}
    rows = read_daily_balances(points, wallet, **query)["results"]
    return [row["amount"] for row in rows if row["ledgerAccountId"] == points.account_id]


def test_daily_balances_have_a_row_for_each_account_and_day(organization, points):
    wallet = points.wallet()
    mint_id = points.mint(wallet, 10)
    shift(points, 3, mint_id)
    points.burn(wallet, 4)
    rows = read_daily_balances(points, wallet)["results"]
    assert len(rows) == 60
    assert {row["ledgerAccountId"] for row in rows[:30]} == {organization.created.ledger_account_id}
    today = datetime.now(UTC).date()
    assert [row["date"] for row in rows[:30]] == [(today - timedelta(days=n)).isoformat() for n in range(29, -1, -1)]
    assert rows[-1] == {
        "ledgerAccountId": points.account_id,
        "ledgerAccountKey": points.account["ledgerAccountKey"],
        "isDefaultAccount": False,
        "date": today.isoformat(),
        "amount": 6,
    }
    assert [row["amount"] for row in rows[30:]] == [0] * 26 + [10, 10, 10, 6]


def test_every_kind_of_movement_counts_on_its_day(points):
    ana, ben = points.wallet(), points.wallet()
    shift(points, 9, points.mint(ana, 100))
    transfer_id = points.move(30, source=ana, target=ben)[0]["ledgerTransactionId"]
    shift(points, 7, transfer_id)
    hold_id = points.burn(ana, 20, captureMethod="manual")[0]["ledgerTransactionId"]
    points.capture((hold_id, 15))
    # A hold counts on the day of its capture.
    points.change(
        f"UPDATE ledger_transactions SET created_at = {earlier('created_at', ':held')},"
        f" captured_at = {earlier('captured_at', ':captured')} WHERE ledger_transaction_id = :id",
        held="6 days",
        captured="4 days",
        id=hold_id,
    )
    revert_id = points.revert(hold_id)[0]["ledgerTransactionId"]
    shift(points, 2, revert_id)
    assert amounts(points, ana, 11) == [0, 100, 100, 70, 70, 70, 55, 55, 70, 70, 70]
    assert amounts(points, ben, 11) == [0, 0, 0, 30, 30, 30, 30, 30, 30, 30, 30]
    assert points.verify() == []


@pytest.mark.parametrize("is_posted", [False, True])
def test_points_count_until_the_day_of_their_expiry_whether_it_is_posted_or_not(points, is_posted):
    now = datetime.now(UTC)
    wallet = points.wallet()
    # The days from now until the points of each mint expire.
    days_to_expiry = {points.mint(wallet, 10): -5, points.mint(wallet, 7): -2, points.mint(wallet, 3): 5}
    shift(points, 9, *days_to_expiry)
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
    assert amounts(points, wallet, 11) == [0, 20, 20, 20, 20, 10, 10, 10, 3, 3, 3]


@pytest.mark.parametrize("is_posted", [False, True])
def test_an_idle_balance_counts_until_its_expiry_whether_it_is_posted_or_not(organization, is_posted):
    points = Points.new(organization, expirationPolicies=[{"expirationType": "lastTransaction", "period": 1}])
    wallet = points.wallet()
    shift(points, 34, points.mint(wallet, 10))
    points.change(
        f"UPDATE ledger_balances SET last_transaction_date = {earlier('last_transaction_date', ':ago')}"
        " WHERE wallet_id = :wallet",
        ago="34 days",
        wallet=wallet,
    )
    if is_posted:
        points.burn(wallet, 0)
        assert points.rows()[1]["description"] == "Expired"
    balances = amounts(points, wallet, 36)
    assert (balances[0], balances[1], balances[-1]) == (0, 10, 0)
    # The expiry is one month, 28 to 31 days, after the last transaction.
    assert balances.count(10) in (28, 29, 30, 31)
    assert sorted(balances[1:], reverse=True) == balances[1:]


def test_points_that_a_revert_gives_back_after_their_expiry_do_not_count(points):
    now = datetime.now(UTC)
    wallet = points.wallet()
    mint_id = points.mint(wallet, 10)
    burn_id = points.burn(wallet, 10)[0]["ledgerTransactionId"]
    shift(points, 9, mint_id)
    shift(points, 8, burn_id)
    expiry = now - timedelta(days=4)
    points.change("UPDATE ledger_lots SET expires_at = :at WHERE ledger_transaction_id = :id", at=expiry, id=mint_id)
    points.revert(burn_id)
    assert amounts(points, wallet, 11) == [0, 10, *[0] * 9]
    assert points.verify() == []


def test_debt_is_not_part_of_a_balance(organization):
    points = Points.new(organization, overdraftLimit=50)
    wallet = points.wallet()
    shift(points, 5, points.mint(wallet, 10))
    shift(points, 4, points.burn(wallet, 30, allowOverdraft=True)[0]["ledgerTransactionId"])
    # The debt is 20 until this mint repays it.
    shift(points, 2, points.mint(wallet, 25))
    assert amounts(points, wallet, 7) == [0, 10, 0, 0, 5, 5, 5]


def test_daily_balances_cover_the_requested_days(points):
    wallet = points.wallet()
    today = datetime.now(UTC).date()

    def dates(**query):
        rows = read_daily_balances(points, wallet, **query)["results"]
        return sorted({row["date"] for row in rows})

    day = timedelta(days=1)
    assert dates(fromDate=today, toDate=today) == [today.isoformat()]
    assert dates(fromDate=today, toDate=today + 5 * day) == [today.isoformat()]
    assert dates(fromDate=today + day, toDate=today + 5 * day) == []
    assert dates(toDate="2024-03-01")[::29] == ["2024-02-01", "2024-03-01"]
    assert len(dates(fromDate=today - 365 * day)) == 366
    assert dates(toDate="0001-01-02") == ["0001-01-01", "0001-01-02"]
    for query in (
        {"fromDate": today - 366 * day},
        {"fromDate": "2024-03-02", "toDate": "2024-03-01"},
        {"fromDate": "9999-12-31"},
        {"fromDate": "2024-02-30"},
        {"toDate": "yesterday"},
        {"day": "2024-02-02"},
    ):
        problem = read_daily_balances(points, wallet, expect=400, **query)
        assert {error["parameter"] for error in problem["errors"]} <= {"fromDate", "toDate", "day"}
    assert dates(fromDate="9998-12-31", toDate="9999-12-31") == []


def test_wallets_of_another_organization_are_not_found(points, other_organization):
    other_wallet = other_organization.member()["ledgerWalletId"]
    read_daily_balances(points, other_wallet, expect=404)
    points.admin.get(f"{points.path}/wallets/{other_wallet}", include="lots", expect=404)
