"""Refunds return parts of a settled burn: to which lots, and worth how much money."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from domain.ledger.allocation import Allocator
from domain.ledger.lots import Lot, LotUse, RestoreLots
from domain.ledger.postings import Details, Holding, StoredTransaction
from domain.ledger.records import BURN, REVERT, SETTLED
from domain.ledger.refusals import AlreadyReverted, SupplyExceeded
from domain.ledger.session import LedgerSession
from tests.builders.campaigns import NOON, account

ANA = 1
DAY = timedelta(days=1)
POINTS, TRACKED = account(), account(point_tracking_enabled=True)
# The burn took 30 points from lot 1, 50 from lot 2 and 20 from lot 3, which never expires.
SOON, LATE, NEVER = (LotUse(1, Decimal(30), NOON + DAY), LotUse(2, Decimal(50), NOON + 2 * DAY), LotUse(3, Decimal(20)))


def session(of=POINTS, supply=None, **amounts):
    holding = Holding(**{name: Decimal(value) for name, value in amounts.items()})
    return LedgerSession({1: of}, {(ANA, 1): holding}, {1: Decimal(supply)} if supply else {}, NOON)


def burn(amount=100, **values):
    """A settled burn, worth 10 euros."""
    plain = {
        "ledger_transaction_id": 8,
        "ledger_account_id": 1,
        "transaction_type": BURN,
        "status": SETTLED,
        "amount": Decimal(amount),
        "from_wallet_id": ANA,
        "to_wallet_id": None,
        "is_expiry": False,
        "fiat_value": Decimal(10),
        "fiat_currency": "EUR",
        "reversal_ledger_transaction_id": None,
        "external_event_date": None,
        "pending_expires_at": None,
        "entry_count": 2,
    }
    return StoredTransaction(**plain | values)


def refund(ledger, payment, points, money, key="k"):
    """Return points and their value in money of a burn; return the step."""
    return ledger.refund(payment, ledger.accounts[1], Decimal(points), Decimal(str(money)), Details(key))


def restored_amounts(step):
    """(amounts that return, and new uses of the partly reverted burn, both by id of the lot)."""
    [move] = step.lot_moves
    assert isinstance(move, RestoreLots)
    returned_amounts = {use.ledger_lot_id: use.amount for use in move.returned_uses}
    return returned_amounts, {use.ledger_lot_id: use.amount for use in move.changed_uses}


def test_a_refund_returns_the_points_worth_its_money():
    ledger = session(current=7, fiat=10)
    step = refund(ledger, burn(), points=40, money=4)
    assert (step.transaction_type, step.status, step.is_partial, step.burned) == (REVERT, SETTLED, True, -40)
    assert [(entry.wallet_id, entry.amount) for entry in step.entries] == [(ANA, 40), (None, -40)]
    assert (step.fiat_value, step.details.fiat.currency) == (4, "EUR")
    assert ledger.holding(ANA, 1).current == 7 + 40
    assert ledger.holding(ANA, 1).fiat == 10 - 4


def test_the_last_refund_reverts_the_burn_with_its_remaining_money():
    ledger, payment = session(fiat=10), burn(amount=100)
    refund(ledger, payment, points=40, money="3.33")
    step = refund(ledger, payment, points=60, money="6.67")
    assert (step.is_partial, step.amount, step.fiat_value) == (False, 60, Decimal("6.67"))
    assert ledger.holding(ANA, 1).current == 40 + 60
    assert ledger.holding(ANA, 1).fiat == 0
    with pytest.raises(AlreadyReverted):
        refund(ledger, payment, points=1, money="0.01")


def test_the_money_of_refunds_adds_up_to_the_last_digit():
    ledger, payment = session(fiat=10), burn(fiat_value=Decimal("18446744073709.0000000000000000000003"))
    refund(ledger, payment, points=40, money="9446744073709.0000000000000000000001")
    refund(ledger, payment, points=20, money="0.0000000000000000000001")
    step = refund(ledger, payment, points=40, money=0)
    assert (step.is_partial, step.fiat_value) == (False, Decimal("9000000000000.0000000000000000000001"))


def test_a_revert_returns_the_points_that_earlier_refunds_have_left():
    ledger, payment = session(), burn(amount=100, reverted_amount=Decimal(40), fiat_returned=Decimal(4))
    step = ledger.revert(payment, POINTS, Details("k"))
    assert (step.amount, step.burned) == (100 - 40, -(100 - 40))
    assert step.fiat_value == 10 - 4


def test_refunds_fill_the_lots_that_expire_last_first():
    ledger, payment = session(TRACKED), burn(uses=(SOON, LATE, NEVER))
    assert restored_amounts(refund(ledger, payment, points=30, money=3)) == ({3: 20, 2: 10}, {3: 0, 2: 50 - 10})
    assert restored_amounts(refund(ledger, payment, points=45, money=4, key="k2")) == ({2: 40, 1: 5}, {2: 0, 1: 30 - 5})
    assert restored_amounts(refund(ledger, payment, points=25, money=3, key="k3")) == ({1: 25}, {})


def test_a_refund_goes_to_the_lots_that_stored_refunds_have_left():
    """40 of the 100 points were returned before this unit of work: 20 to lot 3, and 20 to lot 2."""
    ledger, payment = (
        session(TRACKED),
        burn(reverted_amount=Decimal(40), uses=(SOON, LotUse(2, Decimal(30), NOON + 2 * DAY))),
    )
    assert restored_amounts(refund(ledger, payment, points=35, money=3)) == ({2: 30, 1: 5}, {2: 0, 1: 30 - 5})
    assert restored_amounts(refund(ledger, payment, points=25, money=3, key="k2")) == ({1: 25}, {})


def test_a_refund_lowers_the_stored_uses_of_the_burn():
    lots = [Lot(use.ledger_lot_id, ANA, 1, 5, use.expires_at, use.amount, Decimal(0)) for use in (SOON, LATE, NEVER)]
    ledger, allocator = session(TRACKED), Allocator(lots)
    for move in refund(ledger, burn(uses=(SOON, LATE, NEVER)), points=30, money=3).lot_moves:
        allocator.apply(9, move)
    assert {lot.ledger_lot_id: lot.remaining for lot in allocator.allocation.changed.values()} == {2: 10, 3: 20}
    assert allocator.allocation.changed_uses == {(8, 3): 0, (8, 2): 40}
    assert allocator.allocation.uses == {}


def test_a_refund_to_an_expired_lot_is_burned_at_once():
    ledger, payment = session(TRACKED), burn(uses=(LotUse(1, Decimal(100), NOON - DAY),))
    refund(ledger, payment, points=30, money=3)
    refund(ledger, payment, points=20, money=2, key="k2")
    expiries = [step for step in ledger.steps if step.is_expiry]
    assert [(step.amount, step.details.external_event_date) for step in expiries] == [(30, NOON), (20, NOON)]
    # Two refunds and two expiries have different keys.
    assert len({step.details.system_unique_key for step in ledger.steps}) == 2 + 2
    assert ledger.holding(ANA, 1).current == 0


def test_a_refund_to_an_expired_lot_gets_a_new_lot_if_the_account_has_restored_expiry_days():
    reviving_account = account(point_tracking_enabled=True, restored_expiry_days=30)
    ledger, payment = session(reviving_account), burn(uses=(LotUse(1, Decimal(60), NOON - DAY), NEVER))
    step = refund(ledger, payment, points=50, money=5)
    restored_lots, new_lot = step.lot_moves
    assert {use.ledger_lot_id: use.amount for use in restored_lots.returned_uses} == {3: 20}
    # The 30 points of the expired lot 1 go to a new lot.
    assert {use.ledger_lot_id: use.amount for use in restored_lots.spent_uses} == {1: 30}
    assert (new_lot.amount, new_lot.expires_at) == (30, NOON + 30 * DAY)
    assert ledger.holding(ANA, 1).current == 50


def test_a_refund_stays_below_the_maximum_supply_of_a_revolving_account():
    revolving_account = account(max_supply=Decimal(100), is_revolving=True)
    assert refund(session(revolving_account, supply=60), burn(), points=40, money=4).amount == 40
    with pytest.raises(SupplyExceeded):
        refund(session(revolving_account, supply=61), burn(), points=40, money=4)
