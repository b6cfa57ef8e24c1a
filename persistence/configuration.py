"""What the evaluation of events needs to know of an organization's accounts, programs and tiers, all at once."""

from __future__ import annotations

from sqlalchemy import Connection, select

from domain.ledger.records import LedgerAccount
from persistence.rows import columns_of, records
from persistence.tables.ledger import ledger_accounts
from persistence.tables.programs import loyalty_programs, loyalty_tiers


def accounts_of_ledger(db: Connection, organization_id: int, ledger_id: int) -> list[LedgerAccount]:
    """Every account of a ledger, by id."""
    rows = db.execute(
        select(*columns_of(ledger_accounts, LedgerAccount))
        .where(ledger_accounts.c.organization_id == organization_id, ledger_accounts.c.ledger_id == ledger_id)
        .order_by(ledger_accounts.c.ledger_account_id)
    )
    return records(LedgerAccount, rows.all())


def main_accounts(db: Connection, organization_id: int) -> dict[int, int | None]:
    """The main ledger account of every loyalty program, by program id."""
    rows = db.execute(
        select(loyalty_programs.c.loyalty_program_id, loyalty_programs.c.main_ledger_account_id).where(
            loyalty_programs.c.organization_id == organization_id
        )
    )
    return {row[0]: row[1] for row in rows}


def tier_keys(db: Connection, organization_id: int) -> dict[int, str]:
    """The key of every loyalty tier, by tier id."""
    rows = db.execute(
        select(loyalty_tiers.c.loyalty_tier_id, loyalty_tiers.c.loyalty_tier_key).where(
            loyalty_tiers.c.organization_id == organization_id
        )
    )
    return {row[0]: row[1] for row in rows}
