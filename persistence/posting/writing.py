"""Writes the steps of a ledger session, by a fixed number of deferred statements for any number of steps."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from domain.ledger.availability import ORDER
from domain.ledger.postings import BalanceKey, Capture, Holding, Posting, Step, position_of
from domain.ledger.records import PENDING, REVERTED, SETTLED
from domain.ledger.session import LedgerSession
from domain.retries import StartOver
from persistence.connections import defer
from persistence.posting.lots import write_lots
from persistence.prepared_statements import Prepared
from persistence.rows import additions, as_json, bytea, change_all, defer_joined, reserve_ids, update_by_id, upsert
from persistence.tables.ledger import ledger_balances, ledger_entries, ledger_transactions

_WRITE_BALANCES = upsert(ledger_balances)

# Each server process of PostgreSQL counts in its own shard, so that mints of one account seldom wait for each other.
_WRITE_SUPPLIES = Prepared("""
INSERT INTO ledger_account_supplies AS s (organization_id, ledger_account_id, shard, minted, burned)
SELECT x.organization_id, x.ledger_account_id, pg_backend_pid() %% 16, x.minted, x.burned
FROM jsonb_to_recordset(%s::jsonb)
    AS x(organization_id bigint, ledger_account_id bigint, minted numeric, burned numeric)
ORDER BY x.ledger_account_id
ON CONFLICT (organization_id, ledger_account_id, shard)
    DO UPDATE SET minted = s.minted + excluded.minted, burned = s.burned + excluded.burned
""")

_CAPTURE = update_by_id(
    ledger_transactions,
    "ledger_transaction_id",
    "amount",
    "status",
    "fiat_value",
    "qualifying_amount",
    "captured_at",
    "updated_at",
    fiat_currency="coalesce(x.fiat_currency, t.fiat_currency)",
    external_event_date="coalesce(x.external_event_date, t.external_event_date)",
)
# Mints that no longer wait for an event of an order do not need its external id, which would be personal data.
_WITHOUT_ORDER = f"t.available_on - '{ORDER}'"
_CONFIRM = update_by_id(
    ledger_transactions,
    "ledger_transaction_id",
    "available_at",
    "policy_expires_at",
    "updated_at",
    held_until="null",
    available_on=_WITHOUT_ORDER,
)
_MARK_REVERTED = update_by_id(
    ledger_transactions,
    "ledger_transaction_id",
    "status",
    "reversal_ledger_transaction_id",
    "updated_at",
    available_on=_WITHOUT_ORDER,
)
_LOWER = update_by_id(ledger_transactions, "ledger_transaction_id", "updated_at", amount="t.reserved_amount - x.amount")
_WRITE_MISSING = update_by_id(
    ledger_transactions,
    "ledger_transaction_id",
    "missing",
    "updated_at",
    clamped_by_ledger_transaction_id=(
        "coalesce(x.clamped_by_ledger_transaction_id, t.clamped_by_ledger_transaction_id)"
    ),
)
_WRITE_UNEARNED = update_by_id(ledger_transactions, "ledger_transaction_id", "unearned", "updated_at")

# From now on, the organization may have mints that wait for events.
_MARK_AWAITS_EVENTS = Prepared("""
UPDATE organizations SET awaits_events = true WHERE organization_id = %s AND NOT awaits_events
""")


def write_session(
    db: Connection,
    organization_id: int,
    session: LedgerSession,
    locked_wallet_ids: Collection[int],
    reserved_ids: Sequence[int] = (),
) -> list[int]:
    """Defer the statements that write the steps of a session; return the id of the transaction of each step.

    `reserved_ids` are ids for the first postings. A session without steps may still change stored
    transactions, and the dates of the last activity in balances.

    Raises StartOver if a changed balance is not of `locked_wallet_ids`: the session has not read this balance, so what
    it would write is wrong.
    """
    steps, has_changed_transactions = session.steps, session.has_changed_transactions
    changed_holdings = session.changed_holdings()
    for (wallet_id, _), _ in changed_holdings:
        if wallet_id not in locked_wallet_ids:
            raise StartOver(f"Points of the wallet {wallet_id} were moved, which is not locked.")
    balances = _balance_rows(organization_id, changed_holdings, session.at)
    if not steps:
        if has_changed_transactions:
            _change_stored(db, organization_id, session, numbered_steps=(), ids_by_step={})
        if balances:
            defer(db, _WRITE_BALANCES, (as_json(balances),))
        return []
    ids = _ids_of_steps(db, steps, reserved_ids)
    numbered_steps = list(zip(ids, steps, strict=True))
    # By the identity of the step, as steps refer to each other as objects.
    ids_by_step = dict(zip(map(id, steps), ids, strict=True))
    transactions = [
        _transaction_row(organization_id, transaction_id, step, session.at, ids, ids_by_step.get(id(step.part_of)))
        for transaction_id, step in numbered_steps
        if isinstance(step, Posting)
    ]
    entries, supplies = _entry_rows(organization_id, numbered_steps), _supply_rows(organization_id, steps)
    statements = additions(ledger_transactions, transactions)
    if has_changed_transactions:
        # Some changes may be to transactions of this session, so their inserts go first.
        defer_joined(db, statements)
        statements = []
        _change_stored(db, organization_id, session, numbered_steps, ids_by_step)
    statements += additions(ledger_entries, entries)
    statements += write_lots(db, organization_id, numbered_steps, session.at, session.find_partly_expired())
    statements.append((_WRITE_BALANCES, (as_json(balances),)))
    if supplies:
        statements.append((_WRITE_SUPPLIES, (as_json(supplies),)))
    if session.new_waiting_mints:
        statements.append((_MARK_AWAITS_EVENTS, (organization_id,)))
    defer_joined(db, statements)
    return ids


def _ids_of_steps(db: Connection, steps: Sequence[Step], reserved_ids: Sequence[int]) -> list[int]:
    """The id of the transaction of each step.

    Captures have the id of the captured transaction, which may be that of an earlier step. Postings get `reserved_ids`;
    if there are too few, further ids are reserved.
    """
    ids: list[int] = []
    remaining_ids = list(reserved_ids)[::-1]
    for position, step in enumerate(steps):
        if isinstance(step, Capture):
            ids.append(_stored_id(step.stored.ledger_transaction_id, ids))
            continue
        if not remaining_ids:
            missing_count = len([later for later in steps[position:] if isinstance(later, Posting)])
            remaining_ids = reserve_ids(db, ledger_transactions=missing_count)["ledger_transactions"][::-1]
        ids.append(remaining_ids.pop())
    return ids


def _change_stored(
    db: Connection,
    organization_id: int,
    session: LedgerSession,
    numbered_steps: Sequence[tuple[int, Step]],
    ids_by_step: Mapping[int, int],
) -> None:
    """Update the transactions that the session has confirmed, lowered, captured, reverted, or clawed back in part."""
    ids = [transaction_id for transaction_id, _ in numbered_steps]
    release_rows = [
        # The statement subtracts this amount, which partial reverts of a pending mint have released.
        {"ledger_transaction_id": transaction_id, "amount": released}
        for transaction_id, released in session.released_amounts.items()
    ]
    capture_rows = [
        {
            "ledger_transaction_id": transaction_id,
            # A capture of zero is a release; the record keeps the reserved amount.
            "amount": step.amount or step.stored.amount,
            "status": SETTLED if step.amount else REVERTED,
            "fiat_value": step.fiat_value,
            "fiat_currency": step.fiat_currency,
            "external_event_date": step.external_event_date,
            "qualifying_amount": step.qualifying,
            "captured_at": step.available_at or session.at,
        }
        for transaction_id, step in numbered_steps
        if isinstance(step, Capture)
    ]
    reverted_rows = [
        {
            "ledger_transaction_id": _stored_id(step.reverts.ledger_transaction_id, ids),
            "status": REVERTED,
            "reversal_ledger_transaction_id": transaction_id,
        }
        for transaction_id, step in numbered_steps
        if isinstance(step, Posting) and step.reverts is not None and not step.is_partial
    ]
    missing_rows = [
        {
            "ledger_transaction_id": transaction_id,
            "missing": missing_amount.amount,
            "clamped_by_ledger_transaction_id": ids_by_step.get(id(missing_amount.posting)),
        }
        for transaction_id, missing_amount in session.missing_amounts.items()
    ]
    # Only of mints that are reverted in part: of a mint that is reverted as a whole, the status changes instead.
    unearned_rows = [
        {"ledger_transaction_id": transaction_id, "unearned": amount}
        for transaction_id, amount in session.unearned_amounts.items()
    ]
    changes: tuple[tuple[Prepared, list[dict[str, Any]]], ...] = (
        (_CONFIRM, _confirmation_rows(session, ids)),
        (_LOWER, release_rows),
        (_CAPTURE, capture_rows),
        (_MARK_REVERTED, reverted_rows),
        (_WRITE_MISSING, missing_rows),
        (_WRITE_UNEARNED, unearned_rows),
    )
    for statement, rows in changes:
        change_all(db, statement, organization_id, [{**row, "updated_at": session.at} for row in rows])


def _confirmation_rows(session: LedgerSession, ids: Sequence[int]) -> list[dict[str, Any]]:
    """The rows of the mints whose awaited event has happened."""
    return [
        {"ledger_transaction_id": _stored_id(transaction_id, ids), **confirmation._asdict()}
        for transaction_id, confirmation in session.confirmations.items()
    ]


def _entry_rows(organization_id: int, numbered_steps: Sequence[tuple[int, Step]]) -> list[dict[str, Any]]:
    """The rows of the steps' entries; entries of a capture follow the stored entries of its transaction."""
    rows = []
    for transaction_id, step in numbered_steps:
        first_index = step.stored.entry_count if isinstance(step, Capture) else 0
        rows += [
            {
                "organization_id": organization_id,
                "ledger_transaction_id": transaction_id,
                "entry_index": index,
                "ledger_account_id": step.account.ledger_account_id,
                "wallet_id": entry.wallet_id,
                "amount": entry.amount,
                "updated_balance": entry.updated_balance,
                "is_overdraft": entry.is_overdraft,
            }
            for index, entry in enumerate(step.entries, first_index)
        ]
    return rows


def _transaction_row(
    organization_id: int, transaction_id: int, posting: Posting, at: datetime, ids: Sequence[int], part_of: int | None
) -> dict[str, Any]:
    """The row of a posting; `part_of` is the transaction that it is a part of.

    `ids` has the transaction id of each step of the session, in the order of the steps.
    """
    details = posting.details
    return {
        "organization_id": organization_id,
        "ledger_transaction_id": transaction_id,
        "ledger_account_id": posting.account.ledger_account_id,
        "transaction_type": posting.transaction_type,
        "status": posting.status,
        "amount": posting.amount,
        "system_unique_key": details.system_unique_key,
        "request_digest": bytea(details.request_digest),
        "external_id": details.external_id,
        "external_event_date": details.external_event_date,
        "description": details.description,
        "tags": details.tags,
        "from_wallet_id": posting.from_wallet_id,
        "to_wallet_id": posting.to_wallet_id,
        "loyalty_event_id": details.loyalty_event_id,
        "atomic_set_id": details.atomic_set_id,
        "reserved_amount": posting.amount if posting.status == PENDING else None,
        "pending_expires_at": posting.pending_expires_at,
        "held_until": posting.held_until,
        "available_at": None if posting.wait is None else posting.wait.available_at,
        "available_on": None if posting.wait is None else posting.wait.awaited,
        "policy_expires_at": posting.policy_expires_at,
        "is_expiry": posting.is_expiry,
        "is_extension": posting.is_extension,
        "fiat_value": posting.fiat_value,
        "fiat_gross_amount": details.fiat.gross_amount,
        "fiat_currency": details.fiat.currency,
        "reverted_ledger_transaction_id": (
            _stored_id(posting.reverts.ledger_transaction_id, ids) if posting.reverts else None
        ),
        "is_partial": posting.is_partial,
        "part_of_ledger_transaction_id": part_of,
        "qualifying_amount": posting.qualifying,
        "created_at": at,
        "updated_at": at,
    }


def _stored_id(transaction_id: int, ids: Sequence[int]) -> int:
    """The id of a transaction. A negative id is a temporary one, of a step of this session, whose id is in `ids`."""
    return transaction_id if transaction_id > 0 else ids[position_of(transaction_id)]


def _balance_rows(
    organization_id: int, holdings: Iterable[tuple[BalanceKey, Holding]], at: datetime
) -> list[dict[str, Any]]:
    """The rows of the balances of these wallets and accounts."""
    return [
        {
            "organization_id": organization_id,
            "wallet_id": wallet_id,
            "ledger_account_id": account_id,
            "current_balance": balance.current,
            "pending_credit_balance": balance.pending_credit,
            "pending_debit_balance": balance.pending_debit,
            "current_overdraft_balance": balance.overdraft,
            "total_overdraft_credit_balance": balance.overdraft_credit,
            "total_fiat_value": balance.fiat,
            "earned": balance.earned,
            "last_transaction_date": balance.last_transaction_date,
            "last_activity_date": balance.last_activity_date,
            "created_at": at,
            "updated_at": at,
        }
        for (wallet_id, account_id), balance in holdings
    ]


def _supply_rows(organization_id: int, steps: Iterable[Step]) -> list[dict[str, Any]]:
    """The rows that add the minted and burned amounts of the steps to the supplies of their accounts."""
    totals: dict[int, dict[str, Any]] = {}
    for step in steps:
        account_id = step.account.ledger_account_id
        total = totals.setdefault(
            account_id,
            {"organization_id": organization_id, "ledger_account_id": account_id, "minted": 0, "burned": 0},
        )
        total["minted"] += step.minted
        total["burned"] += step.burned
    return [total for total in totals.values() if total["minted"] or total["burned"]]
