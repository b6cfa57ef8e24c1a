"""Lists of a wallet's transactions look up the rows of the wallet, whatever the planner expects of it."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from persistence.ledger_transactions import find_rows_of_account, find_rows_of_wallet
from persistence.paging import Page
from tests.builders.ledger import RawLedger
from tests.builders.statements import rows_of_plans

pytestmark = pytest.mark.undistributed

OTHER_WALLETS = 1_000
LIMIT = 25
# By the name of the wallet: the number of its transactions. The planner expects few for both.
SIZES = {"small": 200, "large": 1_500}
# Each transaction of the wallet is looked up once for the total; a page may look up some rows for each of its rows.
MAX_ROWS_PER_TRANSACTION = 3

_MINTS = text("""
WITH minted AS (
    INSERT INTO ledger_transactions (organization_id, ledger_account_id, transaction_type, status, amount,
        system_unique_key, to_wallet_id, created_at, updated_at)
    SELECT :org, :account, 1, 1, 1, gen_random_uuid(), :wallet, now(), now() FROM generate_series(1, :count)
    RETURNING *
)
INSERT INTO ledger_entries (organization_id, ledger_transaction_id, entry_index, ledger_account_id, wallet_id, amount,
    updated_balance)
SELECT :org, ledger_transaction_id, 0, :account, to_wallet_id, 1, 1 FROM minted
UNION ALL SELECT :org, ledger_transaction_id, 1, :account, NULL, -1, NULL FROM minted
""")


@pytest.fixture(scope="module")
def ledger_and_wallets(engine):
    """A ledger with many wallets of one transaction; and the wallets of each size, by the name of the size."""
    with engine.begin() as db:
        ledger = RawLedger.new(db)
        ledger.mint_for_many(OTHER_WALLETS)
        wallets = {name: ledger.wallet() for name in SIZES}
        for name, wallet_id in wallets.items():
            ids = {"org": ledger.organization_id, "account": ledger.account_id, "wallet": wallet_id}
            db.execute(_MINTS, {**ids, "count": SIZES[name]})
    return ledger, wallets


@pytest.fixture(params=["of all wallets", "none"])
def statistics(request, db):
    """The statistics that the planner has; it expects few rows of a wallet with either."""
    if request.param == "none":
        db.execute(text("DELETE FROM pg_statistic"))
    else:
        db.execute(text("ANALYZE ledger_transactions, ledger_entries, ledger_accounts"))


@pytest.mark.usefixtures("statistics")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("order", [None, "createdAt,asc", "amount,desc"])
@pytest.mark.parametrize("list_of", ["member", "account key", "account"])
def test_the_transactions_of_a_wallet_are_looked_up_once(db, ledger_and_wallets, size, order, list_of):
    ledger, wallets = ledger_and_wallets
    page = Page(page=0, limit=LIMIT, order=order)
    pages = []

    def find_page():
        if list_of == "account":
            filters = {"wallet_id": wallets[size]}
            pages.append(find_rows_of_account(db, ledger.organization_id, ledger.account_id, filters, page))
        else:
            key = ledger.organization.ledger_account_key
            filters = {"ledger_account_key": key} if list_of == "account key" else {}
            pages.append(find_rows_of_wallet(db, ledger.organization_id, wallets[size], filters, page))

    rows = rows_of_plans(db, find_page)
    [first_page] = pages
    assert (first_page.total_count, len(first_page.results)) == (SIZES[size], LIMIT)
    assert rows <= MAX_ROWS_PER_TRANSACTION * SIZES[size]
