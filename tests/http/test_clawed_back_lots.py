"""Reverts of spent mints take points of other lots; the revert of the spending gives them back to these lots."""

from __future__ import annotations

import pytest

from tests.builders.points import Points
from tests.builders.test_clocks import Clock

JANUARY, FEBRUARY, MARCH = "2027-01-20T00:00:00Z", "2027-02-20T00:00:00Z", "2027-03-20T00:00:00Z"


@pytest.fixture
def clock(api):
    return Clock.new(api, starts_at="2027-01-01T00:00:00Z")


@pytest.fixture
def points(clock):
    return Points.default(clock.organization)


@pytest.fixture
def ana(points):
    return points.wallet()


def mint_until(points, wallet, amount, expires_at):
    """Mint points that expire at a moment; return the id of the transaction."""
    body = {"amount": amount, "expirationDate": expires_at}
    response = points.admin.post(f"{points.ledger_path}/wallets/{wallet}/mint", body, expect=200)
    return response["transactions"][0]["ledgerTransactionId"]


def spend(points, wallet, amount, **more):
    """Burn points; return the id of the transaction."""
    return points.burn(wallet, amount, **more)[0]["ledgerTransactionId"]


def lots_of(points, wallet):
    """The amounts of a wallet by their moments of expiry."""
    return {lot["expiresAt"]: lot["available"] for lot in points.wallet_of(wallet, include="lots")["lots"]["expiring"]}


def test_points_return_to_the_lot_that_gave_points_for_a_spent_mint(points, ana, clock):
    mint_until(points, ana, 100, MARCH)
    short_lived_mint = mint_until(points, ana, 50, JANUARY)
    burn = spend(points, ana, 50)
    points.revert(short_lived_mint)
    # The burn has spent the 50 points until January, so the revert took points until March.
    assert lots_of(points, ana) == {MARCH: 100 - 50}
    points.revert(burn)
    assert lots_of(points, ana) == {MARCH: 100}
    clock.advance("2027-01-25T00:00:00Z")
    assert points.balance(ana) == 100
    assert points.verify() == []


def test_points_do_not_expire_if_only_the_lot_of_the_reverted_mint_has_expired(points, ana, clock):
    mint_until(points, ana, 100, MARCH)
    short_lived_mint = mint_until(points, ana, 50, JANUARY)
    burn = spend(points, ana, 50)
    points.revert(short_lived_mint)
    clock.advance("2027-01-25T00:00:00Z")
    points.revert(burn)
    assert lots_of(points, ana) == {MARCH: 100}
    assert points.verify() == []


def test_points_expire_at_once_if_the_lot_that_gave_points_has_expired(points, ana, clock):
    long_lived_mint = mint_until(points, ana, 50, MARCH)
    burn = spend(points, ana, 50)
    mint_until(points, ana, 80, JANUARY)
    points.revert(long_lived_mint)
    assert lots_of(points, ana) == {JANUARY: 80 - 50}
    clock.advance("2027-01-25T00:00:00Z")
    points.revert(burn)
    # The mint until March is undone, and the 80 points have expired.
    assert points.balance(ana) == 0
    assert points.verify() == []


@pytest.mark.parametrize("is_mint_first", [True, False], ids=["mint first", "burn first"])
def test_one_batch_of_reverts_leaves_the_same_lots_in_any_order(points, ana, is_mint_first):
    mint_until(points, ana, 100, MARCH)
    short_lived_mint = mint_until(points, ana, 50, JANUARY)
    burn = spend(points, ana, 50)
    ids = [str(short_lived_mint), str(burn)]
    body = {"transactionIds": ids if is_mint_first else ids[::-1]}
    response = points.admin.post("/ledger-transactions/batch-revert", body, expect=200)
    assert response["failed"] == []
    assert lots_of(points, ana) == {MARCH: 100}
    assert points.verify() == []


def test_the_lot_that_expires_last_gets_its_points_back_first(points, ana):
    short_lived_mint = mint_until(points, ana, 60, JANUARY)
    hold = spend(points, ana, 60, captureMethod="manual")
    mint_until(points, ana, 30, FEBRUARY)
    mint_until(points, ana, 70, MARCH)
    points.revert(short_lived_mint)
    # 30 + 30 points of the two other lots were taken; the first lot is held.
    assert lots_of(points, ana) == {JANUARY: 0, MARCH: 70 - 30}
    points.capture((hold, 40))
    # 20 of the 60 held points are released.
    assert lots_of(points, ana) == {MARCH: 70 - 30 + 20}
    points.revert(hold)
    assert lots_of(points, ana) == {FEBRUARY: 30, MARCH: 70}
    assert points.verify() == []


def test_points_pass_through_the_lots_of_several_reverted_mints(points, ana):
    first_mint = mint_until(points, ana, 50, JANUARY)
    burn = spend(points, ana, 50)
    second_mint = mint_until(points, ana, 50, FEBRUARY)
    mint_until(points, ana, 50, MARCH)
    points.revert(first_mint)
    points.revert(second_mint)
    # The revert of the second mint had to take the points until March.
    assert lots_of(points, ana) == {}
    points.revert(burn)
    assert lots_of(points, ana) == {MARCH: 50}
    assert points.verify() == []


def test_transferred_points_return_to_the_lots_of_the_receiver(points, ana):
    ben = points.wallet()
    mint_until(points, ana, 50, JANUARY)
    transfer = points.move(50, source=ana, target=ben)[0]["ledgerTransactionId"]
    burn = spend(points, ben, 50)
    mint_until(points, ben, 80, MARCH)
    points.revert(transfer)
    assert lots_of(points, ana) == {JANUARY: 50}
    assert lots_of(points, ben) == {MARCH: 80 - 50}
    points.revert(burn)
    assert lots_of(points, ben) == {MARCH: 80}
    assert points.verify() == []
