"""Constraints and triggers of the database refuse a broken ledger, even if the code has an error."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from domain.ledger.records import BURN, MINT, PENDING, SETTLED
from persistence.transactions import violated_constraint
from tests.builders.ledger import RawLedger


@pytest.fixture
def ledger(db):
    return RawLedger.new(db)


def check_now(db):
    """Check the deferred constraints, as a commit does first."""
    db.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
    db.execute(text("SET CONSTRAINTS ALL DEFERRED"))


def refused_by(constraint, work, *arguments, **keywords):
    """Check that the work violates the constraint; returns the message of the database."""
    with pytest.raises(IntegrityError) as caught:
        work(*arguments, **keywords)
    assert violated_constraint(caught.value, [constraint]) == constraint
    return str(caught.value.orig)


def test_balanced_transactions_are_accepted(ledger, db):
    ana, ben = ledger.wallet(), ledger.wallet()
    ledger.mint(ana, 10)
    ledger.transfer(ana, ben, "2.5")
    ledger.burn(ben, 1)
    # An amount of 0 needs no entries.
    ledger.transaction(MINT, source=None, target=None, amount=0)
    check_now(db)


def test_entries_that_do_not_sum_to_zero_are_refused(ledger, db):
    wallet = ledger.wallet()
    transaction_id = ledger.transaction(MINT, source=None, target=wallet, amount=10)
    ledger.entries(transaction_id, [{"wallet_id": wallet, "amount": 10}, {"wallet_id": None, "amount": -9}])
    message = refused_by("ledger_transaction_is_balanced", check_now, db)
    assert f"ledger transaction {transaction_id} of organization {ledger.organization_id}" in message
    # 10 - 9
    assert "sum to 1," in message


def test_an_unbalanced_transaction_is_refused_at_the_commit(engine):
    connection = engine.connect()
    work = connection.begin()
    ledger = RawLedger.new(connection)
    transaction_id = ledger.transaction(MINT, source=None, target=ledger.wallet(), amount=10)
    ledger.entries(transaction_id, [{"wallet_id": None, "amount": -10}])
    refused_by("ledger_transaction_is_balanced", work.commit)
    connection.close()
    with engine.connect() as db:
        statement = text("SELECT count(*) FROM ledger_transactions WHERE ledger_transaction_id = :id")
        assert db.execute(statement, {"id": transaction_id}).scalar_one() == 0


def test_a_settled_amount_needs_two_entries(ledger, db):
    ledger.transaction(BURN, source=ledger.wallet(), target=None, amount=10)
    assert "with 0 entries" in refused_by("ledger_transaction_is_balanced", check_now, db)


def test_a_pending_transaction_needs_entries_when_it_is_settled(ledger, db):
    transaction_id = ledger.transaction(BURN, source=ledger.wallet(), target=None, amount=10, status=PENDING)
    check_now(db)
    db.execute(
        text("UPDATE ledger_transactions SET status = :settled WHERE ledger_transaction_id = :id"),
        {"settled": SETTLED, "id": transaction_id},
    )
    assert "with 0 entries" in refused_by("ledger_transaction_is_balanced", check_now, db)


def _add_entries_later(engine, first_change=None):
    """Commit a mint, which has two entries, and then add two balanced entries to it.

    `first_change` is SQL that runs before the new entries, in the same database transaction.
    """
    with engine.begin() as db:
        ledger = RawLedger.new(db)
        wallet = ledger.wallet()
        transaction_id = ledger.mint(wallet, 10)
    with engine.begin() as db:
        ledger.db = db
        if first_change:
            db.execute(text(first_change), {"id": transaction_id})
        ledger.entries(transaction_id, [{"wallet_id": wallet, "amount": 5}, {"wallet_id": None, "amount": -5}], first=2)


def test_no_entries_can_be_added_to_a_complete_transaction(engine):
    assert "is complete" in refused_by("ledger_entries_come_with_their_transaction", _add_entries_later, engine)


def test_entries_can_be_added_to_a_transaction_that_is_being_captured(engine):
    # A capture changes the row of the transaction in the same database transaction.
    change = f"UPDATE ledger_transactions SET status = {SETTLED} WHERE ledger_transaction_id = :id"
    _add_entries_later(engine, first_change=change)


def test_entries_may_be_written_in_savepoints(ledger, db):
    wallet = ledger.wallet()
    with db.begin_nested():
        transaction_id = ledger.transaction(MINT, source=None, target=wallet, amount=10)
        with db.begin_nested():
            ledger.entries(transaction_id, [{"wallet_id": wallet, "amount": 10}])
    with db.begin_nested():
        ledger.entries(transaction_id, [{"wallet_id": None, "amount": -10}], first=1)
    check_now(db)


def test_no_entries_can_be_added_to_a_transaction_that_another_connection_has_committed(engine):
    with engine.begin() as later_db:
        # This database transaction has the lower id, and still did not create the ledger transaction.
        later_db.execute(text("SELECT pg_current_xact_id()"))
        with engine.begin() as other_db:
            ledger = RawLedger.new(other_db)
            transaction_id = ledger.mint(ledger.wallet(), 10)
        ledger.db = later_db
        # The mint has the entries 0 and 1.
        late_entries = [{"wallet_id": None, "amount": 0}]
        with later_db.begin_nested() as savepoint:
            refused_by(
                "ledger_entries_come_with_their_transaction", ledger.entries, transaction_id, late_entries, first=2
            )
            savepoint.rollback()


@pytest.mark.parametrize(
    "change", ["UPDATE ledger_entries SET amount = 0", "DELETE FROM ledger_entries", "TRUNCATE ledger_entries"]
)
def test_entries_are_never_changed(ledger, db, change):
    ledger.mint(ledger.wallet(), 10)
    check_now(db)
    refused_by("ledger_entries_stay", db.execute, text(change))


def test_entries_of_another_account_than_their_transaction_are_refused(ledger):
    transaction_id = ledger.transaction(MINT, source=None, target=ledger.wallet(), amount=10)
    entries = [{"wallet_id": None, "amount": -10}]
    other_account_id = ledger.account()
    message = refused_by(
        "ledger_entries_come_with_their_transaction",
        ledger.entries,
        transaction_id,
        entries,
        account_id=other_account_id,
    )
    assert "of another account" in message
