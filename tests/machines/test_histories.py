"""Short histories that once came out wrong, or that only a clock which stands still brings about."""

from __future__ import annotations

from datetime import timedelta

import pytest

from domain.ledger.refusals import NotRevertible
from tests.builders.desk import Desk


@pytest.fixture
def desk(engine):
    desk = Desk.new(engine)
    yield desk
    assert desk.verify() == []


def expiries(desk):
    return desk.ask("SELECT amount FROM ledger_transactions WHERE organization_id = :org AND is_expiry ORDER BY 1")


def last_balance(desk, wallet):
    """The balance that the wallet's latest entry says it left."""
    entries = desk.ask(
        "SELECT updated_balance FROM ledger_entries WHERE organization_id = :org AND wallet_id = :wallet"
        " ORDER BY ledger_transaction_id DESC, entry_index DESC LIMIT 1",
        wallet=wallet,
    )
    return entries[0][0]


def test_a_mint_that_is_captured_after_its_expiry_has_expired(desk):
    points = desk.account(point_tracking_enabled=True, expires_in_months=1, max_supply=10)
    (ana,) = desk.wallets(1)
    mint = desk.mint(points, ana, 10, manual=True, external_event_date=desk.now)
    desk.now += timedelta(days=40)
    desk.capture(points, [(mint, None)])
    assert desk.balance(points, ana).current_balance == 0
    assert last_balance(desk, ana) == 0
    assert desk.issued(points) == {points: 0}
    assert expiries(desk) == [(10,)]


def test_a_transfer_that_is_captured_after_its_value_expired_gives_what_has_not(desk):
    points = desk.account(point_tracking_enabled=True)
    ana, ben = desk.wallets(2)
    desk.mint(points, ana, 10, expiration_date=desk.now + timedelta(days=3))
    desk.mint(points, ana, 5, expiration_date=desk.now + timedelta(days=30))
    hold = desk.transfer(points, ana, ben, 12, manual=True)
    desk.now += timedelta(days=10)
    desk.capture(points, [(hold, None)])
    assert desk.balance(points, ana).current_balance == 3
    assert desk.balance(points, ben).current_balance == 2
    assert last_balance(desk, ben) == 2
    assert desk.issued(points) == {points: 5}


def test_a_part_is_released_and_the_rest_reverted_in_the_same_moment(desk):
    points = desk.account(point_tracking_enabled=True)
    (ana,) = desk.wallets(1)
    desk.mint(points, ana, 10, expiration_date=desk.now + timedelta(days=3))
    hold = desk.burn(points, ana, 10, manual=True)
    desk.now += timedelta(days=3)
    desk.capture(points, [(hold, 6)])
    desk.revert(hold)
    assert desk.balance(points, ana).current_balance == 0
    assert expiries(desk) == [(4,), (6,)]


def test_an_expiry_cannot_be_reverted(desk):
    points = desk.account(point_tracking_enabled=True)
    (ana,) = desk.wallets(1)
    desk.mint(points, ana, 10, expiration_date=desk.now + timedelta(days=3))
    desk.now += timedelta(days=3)
    desk.mint(points, ana, 1)
    expiry = "SELECT ledger_transaction_id FROM ledger_transactions WHERE organization_id = :org AND is_expiry"
    ((transaction_id,),) = desk.ask(expiry)
    with pytest.raises(NotRevertible):
        desk.revert(transaction_id)
    assert desk.balance(points, ana).current_balance == 1
