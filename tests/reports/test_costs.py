"""Noting changes for reports reads what has changed, and nothing else."""

from __future__ import annotations

from sqlalchemy import Connection

from tests.builders.ledger import RawLedger
from tests.builders.statements import rows_read


def test_mints_are_noted_without_reading_all_others(db: Connection) -> None:
    """A connection plans the statement once, while the tables are new and not analyzed."""
    ledger = RawLedger.new(db)
    account = ledger.account(point_tracking_enabled=True)
    for wallets in (10, 5_000):
        ledger.mint_for_many(wallets, account)
    before = rows_read(db, "ledger_transactions")
    ledger.mint_for_many(100, account)
    # Each transaction once for the report, for each entry, for the lot, and by the guard of complete transactions.
    assert rows_read(db, "ledger_transactions") - before <= 10 * 100
