"""Short histories that once had a wrong result, or that are possible only while the clock does not advance."""

from __future__ import annotations

from datetime import timedelta

import pytest

from domain.ledger.refusals import NotRevertible
from tests.builders.ledger_client import WHOLE, LedgerClient


@pytest.fixture
def client(engine):
    client = LedgerClient.new(engine)
    yield client
    assert client.verify() == []


def expiries(client):
    """The amount of each expiry, the lowest first."""
    return client.ask("SELECT amount FROM ledger_transactions WHERE organization_id = :org AND is_expiry ORDER BY 1")


def last_balance(client, wallet):
    """The balance after the wallet's latest entry."""
    entries = client.ask(
        "SELECT updated_balance FROM ledger_entries WHERE organization_id = :org AND wallet_id = :wallet"
        " ORDER BY ledger_transaction_id DESC, entry_index DESC LIMIT 1",
        wallet=wallet,
    )
    return entries[0][0]


def test_points_of_a_mint_that_is_captured_after_their_expiry_expire_at_once(client):
    # The capture issues all of the supply, and the expiry frees it.
    points = client.account(point_tracking_enabled=True, expires_in_months=1, max_supply=10)
    (ana,) = client.wallets(1)
    # A `manual` mint is pending until it is captured.
    mint = client.mint(points, ana, 10, manual=True)
    client.now += timedelta(days=40)
    client.capture(points, [(mint, WHOLE)])
    assert client.balance(points, ana).current_balance == 0
    assert last_balance(client, ana) == 0
    assert client.issued_amounts(points) == {points: 0}
    assert expiries(client) == [(10,)]


def test_a_transfer_that_is_captured_after_some_lots_expired_moves_only_the_unexpired_points(client):
    points = client.account(point_tracking_enabled=True)
    ana, ben = client.wallets(2)
    client.mint(points, ana, 10, expiration_date=client.now + timedelta(days=3))
    client.mint(points, ana, 5, expiration_date=client.now + timedelta(days=30))
    hold = client.transfer(points, ana, ben, 12, manual=True)
    client.now += timedelta(days=10)
    client.capture(points, [(hold, WHOLE)])
    # The transfer took the 10 points that expire first, which have expired, and 2 of the 5.
    assert client.balance(points, ana).current_balance == 5 - 2
    assert client.balance(points, ben).current_balance == 2
    assert last_balance(client, ben) == 2
    assert client.issued_amounts(points) == {points: 5}


def test_expired_points_that_a_capture_releases_and_its_revert_returns_expire_at_once(client):
    points = client.account(point_tracking_enabled=True)
    (ana,) = client.wallets(1)
    client.mint(points, ana, 10, expiration_date=client.now + timedelta(days=3))
    # A `manual` burn holds the points until it is captured.
    hold = client.burn(points, ana, 10, manual=True)
    client.now += timedelta(days=3)
    # The capture releases 10 - 6 points, and its revert returns the 6.
    client.capture(points, [(hold, 6)])
    client.revert(hold)
    assert client.balance(points, ana).current_balance == 0
    assert expiries(client) == [(4,), (6,)]


def test_points_that_a_reverted_mint_takes_later_return_for_its_own_expired_points(client):
    points = client.account(point_tracking_enabled=True, is_revolving=False)
    (ana,) = client.wallets(1)
    first = client.mint(points, ana, 20, expiration_date=client.now + timedelta(days=31))
    second = client.mint(points, ana, 10, expiration_date=client.now + timedelta(days=5))
    hold = client.burn(points, ana, 10, manual=True)
    # The hold has the points of the second mint, so its revert takes 10 of the first.
    client.revert(second)
    client.now += timedelta(days=31)
    third = client.mint(points, ana, 10)
    burn = client.burn(points, ana, 1)
    # Takes 9 points of the third mint, and the last one when the burn is reverted.
    client.revert(first, burn_available=True)
    client.revert(third, burn_available=True)
    client.revert(burn)
    # The 10 points of the hold have expired; the 10 of the third mint return in their place, and its revert takes them.
    client.revert(hold)
    assert client.balance(points, ana).current_balance == 0
    assert client.issued_amounts(points) == {points: 40 - 3 * 10}
    assert expiries(client) == [(10,)]


def test_an_expiry_cannot_be_reverted(client):
    points = client.account(point_tracking_enabled=True)
    (ana,) = client.wallets(1)
    client.mint(points, ana, 10, expiration_date=client.now + timedelta(days=3))
    client.now += timedelta(days=3)
    # The next movement posts the expiry.
    client.mint(points, ana, 1)
    expiry = "SELECT ledger_transaction_id FROM ledger_transactions WHERE organization_id = :org AND is_expiry"
    [(transaction_id,)] = client.ask(expiry)
    with pytest.raises(NotRevertible):
        client.revert(transaction_id)
    assert client.balance(points, ana).current_balance == 1
