"""The records of the server that the hooks know: those of the world that was made, and those in responses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tests.fuzz.world import World

WORLD = World.from_json(os.environ["FUZZ_WORLD"])
PENDING, SETTLED = 0, 1

# Transactions of the account by status -> id -> amount: what can still be captured, and what can be reverted.
open_transactions: dict[int, dict[int, float]] = {PENDING: {}, SETTLED: {}}
# The keys of events that can still be cancelled, oldest first.
open_events: dict[str, None] = {}
# The keys of badge trackings that can still be reverted, oldest first.
open_badge_trackings: dict[str, None] = {}
# The keys of uses of coupons that can still be reverted -> their ids, oldest first.
open_coupon_uses: dict[str, int] = {}
# The ids of users who can be removed.
removable_users: dict[int, None] = {}
# The keys of events that are on the dead-letter list.
dead_letters: dict[str, None] = dict.fromkeys(WORLD.dead_letters)
# The keys of documents that can still be deleted.
deletable_documents: dict[str, None] = dict.fromkeys(WORLD.documents)
# Ids in responses so far, by the name of their path parameter.
_ids: set[tuple[str, str]] = {(name, str(value)) for name, value in WORLD.ids.items()}


def are_known(path: Mapping[str, Any]) -> bool:
    """True if all ids of a path are of known records, which need not belong to each other."""
    return all((name, str(value)) in _ids for name, value in path.items())


def learn(operation: str, body: Any, response: Any) -> None:
    """Remember the records in the response of an operation to this body."""
    _learn(response)
    if operation == "captureLedgerTransactions":
        for transaction in body["transactions"]:
            open_transactions[PENDING].pop(int(transaction["ledgerTransactionId"]), None)
    elif operation == "trackEvents" and response["executionMode"] == "full":
        open_events.update(dict.fromkeys(result["loyaltyEventKey"] for result in response["results"]))
    elif operation in ("useCoupon", "useCouponCode"):
        for usage in response.get("couponUsages") or [response["couponUsage"]]:
            open_coupon_uses[usage["couponUsageKey"]] = usage["couponUsageId"]
    elif operation == "createUser":
        removable_users[response["user"]["userId"]] = None
    elif operation in ("assignBadge", "unassignBadge"):
        open_badge_trackings[response["badgeTracking"]["badgeTrackingKey"]] = None
    elif operation == "requeueDeadLetterEvent":
        dead_letters.pop(response["event"]["loyaltyEventKey"], None)
    elif operation == "cancelEvent":
        for result in response["results"]:
            open_events.pop(result["loyaltyEventKey"], None)


def _learn(value: Any) -> None:
    if isinstance(value, list):
        for item in value:
            _learn(item)
    elif isinstance(value, dict):
        if "ledgerTransactionDetailIndex" in value:
            _learn_transaction(value)
        for name, child in value.items():
            if name in WORLD.ids and isinstance(child, int | str):
                _ids.add((name, str(child)))
            elif isinstance(child, list | dict):
                _learn(child)


def _learn_transaction(row: Mapping[str, Any]) -> None:
    identity, reverted_id = row["ledgerTransactionId"], row["revertedLedgerTransactionId"]
    for transactions in open_transactions.values():
        transactions.pop(reverted_id, None)
    is_spare = row["ledgerAccountId"] == WORLD.ids["ledgerAccountId"] and identity != WORLD.ids["ledgerTransactionId"]
    if is_spare and row["status"] in open_transactions and row["walletId"] and reverted_id is None:
        open_transactions[row["status"]][identity] = row["amount"]


_learn(WORLD.transactions)
