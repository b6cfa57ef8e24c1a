"""No list of transactions scans a whole table."""

from __future__ import annotations

from itertools import combinations

import pytest
from sqlalchemy import event, text

from persistence.ledger_transactions import find_rows_of_account, find_rows_of_wallet
from persistence.paging import Page
from tests.builders.ledger import START, RawLedger


@pytest.fixture(scope="module")
def ledger_ids(engine):
    """Organization, account, account key and wallet of a ledger with so many rows that the planner uses indexes."""
    with engine.begin() as db:
        ledger = RawLedger.new(db)
        wallet_id = ledger.wallet()
        db.execute(
            text(
                "WITH t AS (INSERT INTO ledger_transactions (organization_id, ledger_account_id, transaction_type,"
                "  status, amount, system_unique_key, tags, external_event_date, to_wallet_id, created_at, updated_at)"
                " SELECT :organization, :account, 1, 1, 1, 'bulk-' || n, ARRAY['tag-' || n % 50],"
                "  now() - n * interval '1 hour', :wallet, now(), now() FROM generate_series(1, 3000) n"
                " RETURNING ledger_transaction_id)"
                " INSERT INTO ledger_entries (organization_id, ledger_transaction_id, entry_index, ledger_account_id,"
                "  wallet_id, amount, updated_balance)"
                " SELECT :organization, ledger_transaction_id, side, :account,"
                "  CASE side WHEN 0 THEN :wallet ELSE NULL END, 1 - 2 * side, 0"
                " FROM t CROSS JOIN generate_series(0, 1) side"
            ),
            {"organization": ledger.organization_id, "account": ledger.account_id, "wallet": wallet_id},
        )
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as db:
        db.execute(text("ANALYZE ledger_transactions, ledger_entries"))
    return ledger.organization_id, ledger.account_id, ledger.organization.ledger_account_key, wallet_id


FILTERS = {
    "from_date": START,
    "to_date": START,
    "from_id": 1,
    "to_id": 10**9,
    "system_unique_key": "bulk-7",
    "tags": ["tag-7"],
}
# All combinations of at most three filters.
SUBSETS = [dict(filters) for size in range(4) for filters in combinations(FILTERS.items(), size)]


def plans_of(db, query, *, avoided_methods=()):
    """The plans of the statements that a query executes, with scans of whole tables only if no index can be used.

    `avoided_methods` are further methods that the planner may use only if it has no other one. Without them the plan
    would depend on the statistics, and so on the rows of other tests.
    """
    statements = []

    def record(connection, cursor, statement, parameters, context, many):
        statements.append((statement, parameters))

    event.listen(db, "before_cursor_execute", record)
    query()
    event.remove(db, "before_cursor_execute", record)
    for method in ("seqscan", *avoided_methods):
        db.execute(text(f"SET LOCAL enable_{method} = off"))
    return [
        "\n".join(db.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars())
        for statement, parameters in statements
    ]


@pytest.mark.parametrize("filters", SUBSETS, ids=lambda filters: "-".join(filters) or "none")
def test_every_combination_of_filters_has_an_index(db, ledger_ids, filters):
    organization_id, account_id, account_key, wallet_id = ledger_ids
    page = Page(page=0, limit=25)
    queries = [
        lambda: find_rows_of_account(db, organization_id, account_id, filters, page),
        lambda: find_rows_of_account(db, organization_id, account_id, {**filters, "wallet_id": wallet_id}, page),
        lambda: find_rows_of_wallet(db, organization_id, wallet_id, filters, page),
        lambda: find_rows_of_wallet(
            db, organization_id, wallet_id, {**filters, "ledger_account_key": account_key}, page
        ),
    ]
    for query in queries:
        for plan in plans_of(db, query):
            assert "Seq Scan on ledger_transactions" not in plan, plan
            assert "Seq Scan on ledger_entries" not in plan, plan


@pytest.mark.parametrize("of_wallet", [False, True], ids=["list of an account", "list of a wallet"])
def test_the_newest_rows_are_found_without_sorting_all_rows(db, ledger_ids, of_wallet):
    organization_id, account_id, _, wallet_id = ledger_ids
    page = Page(page=0, limit=25)

    def find_rows():
        if of_wallet:
            find_rows_of_wallet(db, organization_id, wallet_id, {}, page)
        else:
            find_rows_of_account(db, organization_id, account_id, {}, page)

    # The first statement reads the rows of the page.
    plan = plans_of(db, find_rows, avoided_methods=("sort", "bitmapscan"))[0]
    assert "Incremental Sort" in plan
    assert "Presorted Key: " in plan
    assert "Scan Backward using" in plan
