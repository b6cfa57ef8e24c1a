"""The supply of an account is checked for several reverts together."""

from __future__ import annotations

from decimal import Decimal

import pytest

from domain.ledger.postings import Details, Holding, StoredTransaction
from domain.ledger.records import BURN, MINT, SETTLED
from domain.ledger.refusals import SupplyExceeded
from domain.ledger.session import LedgerSession
from tests.builders.campaigns import NOON, account

ANA = 1
ACCOUNT = account(max_supply=Decimal(100), is_revolving=True)


def session(*, issued):
    """A session of an account that has issued this amount; Ana has 50 points of it."""
    return LedgerSession({1: ACCOUNT}, {(ANA, 1): Holding(current=Decimal(50))}, {1: Decimal(issued)}, NOON)


def stored_transaction(transaction_type, amount, transaction_id=None):
    """A settled mint into Ana's wallet, or a burn from it."""
    is_mint = transaction_type == MINT
    return StoredTransaction(
        ledger_transaction_id=transaction_id or (8 if is_mint else 9),
        ledger_account_id=1,
        transaction_type=transaction_type,
        status=SETTLED,
        amount=Decimal(amount),
        from_wallet_id=None if is_mint else ANA,
        to_wallet_id=ANA if is_mint else None,
        is_expiry=False,
        fiat_value=None,
        reversal_ledger_transaction_id=None,
        external_event_date=None,
        pending_expires_at=None,
        entry_count=2,
    )


def revert_all(ledger, *transactions):
    """Revert transactions, and check their supply together."""
    with ledger.net_supply_of_reverts():
        for number, transaction in enumerate(transactions):
            ledger.revert(transaction, ACCOUNT, Details(f"revert-{number}"))


def test_a_burn_may_be_reverted_before_the_mint_that_makes_room_for_it():
    ledger = session(issued=100)
    revert_all(ledger, stored_transaction(BURN, 20), stored_transaction(MINT, 20))
    assert ledger.holding(ANA, 1).current == 50 + 20 - 20


def test_reverts_that_exceed_the_supply_together_are_refused_at_the_end():
    ledger = session(issued=95)
    with pytest.raises(SupplyExceeded) as refusal:
        revert_all(ledger, stored_transaction(BURN, 20), stored_transaction(MINT, 14))
    # 95 + 20 - 14 is 101.
    assert refusal.value.extension_fields == {"available": 100 - 95}


def test_reverts_may_leave_a_supply_that_is_above_its_maximum_but_not_raise_it():
    revert_all(session(issued=120), stored_transaction(BURN, 20), stored_transaction(MINT, 20))
    with pytest.raises(SupplyExceeded):
        revert_all(session(issued=120), stored_transaction(BURN, 20), stored_transaction(MINT, 19))


def test_the_end_of_an_inner_context_also_checks_the_reverts_before_it():
    ledger = session(issued=100)
    with ledger.net_supply_of_reverts():
        ledger.revert(stored_transaction(BURN, 20), ACCOUNT, Details("first"))
        with pytest.raises(SupplyExceeded):
            revert_all(ledger, stored_transaction(MINT, 19))
        ledger.revert(stored_transaction(MINT, 1, transaction_id=7), ACCOUNT, Details("last"))


def test_a_revert_outside_of_the_context_is_checked_by_itself():
    ledger = session(issued=100)
    revert_all(ledger, stored_transaction(MINT, 10))
    with pytest.raises(SupplyExceeded):
        ledger.revert(stored_transaction(BURN, 11), ACCOUNT, Details("burn"))
