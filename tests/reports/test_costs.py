"""Recording changes for reports reads only rows that have changed."""

from __future__ import annotations

from sqlalchemy import Connection

from tests.builders.ledger import RawLedger
from tests.builders.statements import rows_read


def test_mints_are_recorded_for_reports_without_reading_earlier_mints(db: Connection) -> None:
    """The first mints make the connection plan the statement while the tables have no statistics."""
    ledger = RawLedger.new(db)
    account = ledger.account(point_tracking_enabled=True)
    for wallet_count in (10, 5_000):
        ledger.mint_for_many(wallet_count, account)
    rows_read_before = rows_read(db, "ledger_transactions")
    ledger.mint_for_many(100, account)
    # Each new transaction is read a few times: for the report, its entries, its lot, and the check of complete ones.
    assert rows_read(db, "ledger_transactions") - rows_read_before <= 10 * 100
