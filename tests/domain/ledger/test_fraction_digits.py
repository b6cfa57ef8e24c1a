"""No movement posts an amount with more fraction digits than the account has."""

from __future__ import annotations

import inspect
from decimal import Decimal

import pytest

from domain.ledger.records import BURN, PENDING
from domain.ledger.session import LedgerSession
from domain.problems import InvalidRequest
from tests.builders.ledger_sessions import ANA, BEN, KEY, POINTS, amounts, session, stored_transaction

# By method of the session: a call that posts an amount, and the field of the request that the refusal points at.
MOVEMENTS = {
    "mint": (lambda ledger, amount: ledger.mint(POINTS, ANA, amount, KEY), "amount"),
    "burn": (lambda ledger, amount: ledger.burn(POINTS, ANA, amount, KEY), "amount"),
    "transfer": (lambda ledger, amount: ledger.transfer(POINTS, ANA, BEN, amount, KEY), "amount"),
    "capture": (
        lambda ledger, amount: ledger.capture(stored_transaction(BURN, PENDING), POINTS, amount),
        "amount",
    ),
    "refund": (
        lambda ledger, amount: ledger.refund(stored_transaction(BURN), POINTS, amount, Decimal(0), KEY),
        "points",
    ),
}
# These methods get amounts that the server has computed in the digits of the account.
COMPUTED = {"leave_expired", "reverse_part", "expire_arrived", "within_max_balance"}


@pytest.mark.parametrize("amount", ["0.5", "1e-7", "1e-71"])
@pytest.mark.parametrize("name", MOVEMENTS)
def test_an_amount_with_too_many_fraction_digits_is_refused_and_moves_nothing(name, amount):
    ledger = session(ana=amounts(current=30, pending_debit=10))
    before = ledger.holding(ANA, 1)
    move, field = MOVEMENTS[name]
    with pytest.raises(InvalidRequest) as refusal:
        move(ledger, Decimal(amount))
    faults = [(fault.detail, fault.pointer) for fault in refusal.value.faults]
    assert faults == [(f"{field} has more than the 0 fraction digits of this account.", f"/{field}")]
    assert (ledger.steps, ledger.holding(ANA, 1)) == ([], before)


@pytest.mark.parametrize("name", MOVEMENTS)
def test_a_whole_amount_is_posted(name):
    move, _ = MOVEMENTS[name]
    assert move(session(ana=amounts(current=30, pending_debit=10)), Decimal("5.0")).amount == 5


def test_every_method_with_an_amount_is_tested_here():
    methods = inspect.getmembers(LedgerSession, inspect.isfunction)
    names = {name for name, method in methods if "amount" in inspect.signature(method).parameters}
    assert {name for name in names if not name.startswith("_")} == MOVEMENTS.keys() | COMPUTED
