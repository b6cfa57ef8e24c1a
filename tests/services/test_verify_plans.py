"""The checks of the ledger join by all their keys: what they read grows with the ledger, not with its square."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, text

from handlers.services.ledger.verify import verify
from persistence.ledger_checks import CHECKS, FOUND, plan_for_many
from tests.builders.ledger import RawLedger

WALLETS = 20_000

# One mint, with its lot, for each of many wallets; no statistics are made of them.
_MANY_MINTS = """
WITH held AS (
    INSERT INTO wallets (organization_id, wallet_key, ledger_id, created_at)
    SELECT :org, gen_random_uuid(), :ledger, now() FROM generate_series(1, :wallets) RETURNING *
), minted AS (
    INSERT INTO ledger_transactions (organization_id, ledger_account_id, transaction_type, status, amount,
        system_unique_key, to_wallet_id, created_at, updated_at)
    SELECT :org, :account, 1, 1, 5, gen_random_uuid(), wallet_id, now(), now() FROM held RETURNING *
), entries AS (
    INSERT INTO ledger_entries (organization_id, ledger_transaction_id, entry_index, ledger_account_id, wallet_id,
        amount, updated_balance)
    SELECT :org, ledger_transaction_id, 0, :account, to_wallet_id, 5, 5 FROM minted
    UNION ALL SELECT :org, ledger_transaction_id, 1, :account, NULL, -5, NULL FROM minted
), lots AS (
    INSERT INTO ledger_lots (organization_id, wallet_id, ledger_account_id, ledger_transaction_id, amount, remaining,
        created_at)
    SELECT :org, to_wallet_id, :account, ledger_transaction_id, 5, 5, now() FROM minted
)
INSERT INTO ledger_balances
    (organization_id, wallet_id, ledger_account_id, current_balance, earned, created_at, updated_at)
SELECT :org, to_wallet_id, :account, 5, 5, now(), now() FROM minted
"""


@pytest.fixture
def ledger(db: Connection) -> RawLedger:
    ledger = RawLedger.new(db)
    account = ledger.account(point_tracking_enabled=True)
    values = {"org": ledger.organization_id, "ledger": ledger.organization.ledger_id, "account": account}
    db.execute(text(_MANY_MINTS), {**values, "wallets": WALLETS})
    ledger.supply(account, minted=5 * WALLETS, burned=0)
    return ledger


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every node of a plan."""
    yield plan
    for each in plan.get("Plans", ()):
        yield from nodes(each)


def joined_by(node: dict[str, Any]) -> set[str]:
    """The columns by which a node finds what belongs together."""
    condition = node.get("Hash Cond") or node.get("Merge Cond") or ""
    return set(re.findall(r"\.(\w+)", condition))


def test_many_wallets_are_joined_by_all_their_keys(ledger: RawLedger) -> None:
    plan_for_many(ledger.db)
    most = 4 * ledger.db.execute(text("SELECT count(*) FROM ledger_entries")).scalar_one()
    for check in CHECKS:
        for organization_id in (ledger.organization_id, None):
            explain = text(f"EXPLAIN (ANALYZE, TIMING off, FORMAT JSON) {FOUND.format(check)}")
            given = {"organization_id": organization_id, "most": 51}
            [plan] = ledger.db.execute(explain, given).scalar_one()
            for node in nodes(plan["Plan"]):
                seen = node["Actual Rows"] + node.get("Rows Removed by Join Filter", 0)
                assert seen * node["Actual Loops"] <= most, (check, node)
                if node["Node Type"] == "Nested Loop":
                    # The two sides of a transaction or of a chain, written as values beside each row.
                    inner = next(each for each in nodes(node["Plans"][1]) if each["Node Type"] != "Memoize")
                    assert inner["Node Type"] in ("Values Scan", "Result"), (check, node)
                elif "Join" in node["Node Type"]:
                    assert joined_by(node) - {"organization_id"}, (check, node)


def test_many_wallets_that_are_right_have_nothing_broken(ledger: RawLedger) -> None:
    assert verify(ledger.db, ledger.organization_id) == []
