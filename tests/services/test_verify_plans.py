"""The checks of records join by all their keys, so that the rows they read grow linearly with the records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, text

from handlers.services.verify import verify
from persistence import ledger_checks, record_checks
from persistence.ledger_checks import VIOLATIONS, plan_for_many
from tests.builders.ledger import RawLedger

pytestmark = pytest.mark.undistributed

WALLETS = 20_000


@pytest.fixture
def ledger(db: Connection) -> RawLedger:
    ledger = RawLedger.new(db)
    account = ledger.account(point_tracking_enabled=True)
    ledger.mint_for_many(WALLETS, account)
    return ledger


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every node of a plan."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def joined_by(node: dict[str, Any]) -> set[str]:
    """The columns by which a node joins."""
    condition = node.get("Hash Cond") or node.get("Merge Cond") or ""
    return set(re.findall(r"\.(\w+)", condition))


@pytest.mark.slow
def test_many_wallets_are_joined_by_all_their_keys(ledger: RawLedger) -> None:
    plan_for_many(ledger.db)
    # A join by too few keys would read about the square of this.
    max_rows = 4 * ledger.db.execute(text("SELECT count(*) FROM ledger_entries")).scalar_one()
    for check in (*ledger_checks.CHECKS, *record_checks.CHECKS):
        for organization_id in (ledger.organization_id, None):
            explain = text(f"EXPLAIN (ANALYZE, TIMING off, FORMAT JSON) {VIOLATIONS.format(check)}")
            parameters = {"organization_id": organization_id, "limit": 51}
            [plan] = ledger.db.execute(explain, parameters).scalar_one()
            for node in nodes(plan["Plan"]):
                rows_read = node["Actual Rows"] + node.get("Rows Removed by Join Filter", 0)
                assert rows_read * node["Actual Loops"] <= max_rows, (check, node)
                if node["Node Type"] == "Nested Loop":
                    # A nested loop may only add values of the row itself, such as the two sides of a transaction.
                    inner = next(child for child in nodes(node["Plans"][1]) if child["Node Type"] != "Memoize")
                    assert inner["Node Type"] in ("Values Scan", "Result", "Function Scan"), (check, node)
                elif "Join" in node["Node Type"]:
                    assert joined_by(node) - {"organization_id"}, (check, node)


@pytest.mark.slow
def test_many_correct_wallets_have_no_violations(ledger: RawLedger) -> None:
    assert verify(ledger.db, ledger.organization_id) == []
