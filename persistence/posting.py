"""Opening the books on locked wallets, and writing what was posted: a fixed number of statements for any number."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection

from domain.ledger.books import Books
from domain.ledger.expiry import add_months, idle_too_long
from domain.ledger.lots import Allocation, Allocator, Lot, LotUse, MoveLots, RestoreLots, SettleLots, TakeLots
from domain.ledger.postings import Capture, Holding, Pair, Posting, Step, Stored
from domain.ledger.records import PENDING, REVERTED, SETTLED, LedgerAccount, Wallet
from persistence import ledger
from persistence.rows import add_all, as_json, columns_of, records, reserve_ids
from persistence.tables.ledger import ledger_accounts, ledger_entries, ledger_lot_uses, ledger_lots, ledger_transactions

_LOCK_WALLETS = """
SELECT organization_id, wallet_id, wallet_key, ledger_id, created_at FROM wallets
WHERE organization_id = %s AND wallet_id = ANY(%s) ORDER BY wallet_id FOR NO KEY UPDATE
"""

_HOLDINGS = """
SELECT wallet_id, ledger_account_id, current_balance, pending_credit_balance, pending_debit_balance,
       current_overdraft_balance, total_overdraft_credit_balance, total_fiat_value, last_transaction_date
FROM ledger_balances WHERE organization_id = %s AND wallet_id = ANY(%s)
"""

_ACCOUNT_COLUMNS = ", ".join(column.name for column in columns_of(ledger_accounts, LedgerAccount))

# Sharing the account's row keeps a change of its rules waiting until what was decided by them is committed. After a
# wait for such a change the row is answered as the change left it.
_SHARE_ACCOUNTS = f"""
SELECT {_ACCOUNT_COLUMNS} FROM ledger_accounts WHERE organization_id = %s AND ledger_account_id = ANY(%s)
ORDER BY ledger_account_id FOR KEY SHARE
"""

_LOCK_CAPPED_ACCOUNTS = """
SELECT ledger_account_id FROM ledger_accounts WHERE organization_id = %s AND ledger_account_id = ANY(%s)
ORDER BY ledger_account_id FOR NO KEY UPDATE
"""

_EXPIRED_LOTS = """
SELECT wallet_id, ledger_account_id, ledger_lot_id, remaining, greatest(expires_at, created_at) FROM ledger_lots
WHERE organization_id = %s AND wallet_id = ANY(%s) AND remaining > 0 AND expires_at <= %s
ORDER BY wallet_id, ledger_account_id, expires_at, ledger_lot_id
"""

_ALL_LOTS = """
SELECT l.wallet_id, l.ledger_account_id, l.ledger_lot_id, l.remaining, l.expires_at
FROM ledger_lots l JOIN jsonb_to_recordset(%s::jsonb) AS p(wallet_id bigint, ledger_account_id bigint)
  USING (wallet_id, ledger_account_id)
WHERE l.organization_id = %s AND l.remaining > 0 ORDER BY l.ledger_lot_id
"""

_LOT_COLUMNS = "l.ledger_lot_id, l.wallet_id, l.ledger_account_id, l.ledger_transaction_id, l.expires_at, l.amount"

_SPENDABLE_LOTS = f"""
SELECT {_LOT_COLUMNS}, l.remaining
FROM jsonb_to_recordset(%s::jsonb) AS p(wallet_id bigint, ledger_account_id bigint)
CROSS JOIN LATERAL (
    SELECT * FROM ledger_lots
    WHERE organization_id = %s AND wallet_id = p.wallet_id AND ledger_account_id = p.ledger_account_id AND remaining > 0
    ORDER BY expires_at NULLS LAST, ledger_lot_id LIMIT %s
) l
"""

_NAMED_LOTS = f"""
SELECT {_LOT_COLUMNS}, l.remaining FROM ledger_lots l
WHERE l.organization_id = %s AND l.ledger_lot_id = ANY(%s)
UNION ALL
SELECT {_LOT_COLUMNS}, l.remaining FROM ledger_lots l
WHERE l.organization_id = %s AND l.ledger_transaction_id = ANY(%s) AND l.remaining > 0
"""

_WRITE_HOLDINGS = """
INSERT INTO ledger_balances AS b (organization_id, wallet_id, ledger_account_id, current_balance,
    pending_credit_balance, pending_debit_balance, current_overdraft_balance, total_overdraft_credit_balance,
    total_fiat_value, last_transaction_date, created_at, updated_at)
SELECT x.organization_id, x.wallet_id, x.ledger_account_id, x.current, x.pending_credit, x.pending_debit, x.overdraft,
    x.overdraft_credit, x.fiat, x.last_transaction_date, x.at, x.at
FROM jsonb_to_recordset(%s::jsonb) AS x(organization_id bigint, wallet_id bigint, ledger_account_id bigint,
    current numeric, pending_credit numeric, pending_debit numeric, overdraft numeric, overdraft_credit numeric,
    fiat numeric, last_transaction_date timestamptz, at timestamptz)
ON CONFLICT (organization_id, wallet_id, ledger_account_id) DO UPDATE SET
    current_balance = excluded.current_balance,
    pending_credit_balance = excluded.pending_credit_balance,
    pending_debit_balance = excluded.pending_debit_balance,
    current_overdraft_balance = excluded.current_overdraft_balance,
    total_overdraft_credit_balance = excluded.total_overdraft_credit_balance,
    total_fiat_value = excluded.total_fiat_value,
    last_transaction_date = excluded.last_transaction_date,
    updated_at = excluded.updated_at
"""

# Each server process of PostgreSQL counts in a shard of its own, so that mints of one account seldom wait for another.
_WRITE_SUPPLIES = """
INSERT INTO ledger_account_supplies AS s (organization_id, ledger_account_id, shard, minted, burned)
SELECT x.organization_id, x.ledger_account_id, pg_backend_pid() %% 16, x.minted, x.burned
FROM jsonb_to_recordset(%s::jsonb)
    AS x(organization_id bigint, ledger_account_id bigint, minted numeric, burned numeric)
ORDER BY x.ledger_account_id
ON CONFLICT (organization_id, ledger_account_id, shard)
    DO UPDATE SET minted = s.minted + excluded.minted, burned = s.burned + excluded.burned
"""

_WRITE_LOTS_LEFT = """
UPDATE ledger_lots l SET remaining = x.remaining
FROM jsonb_to_recordset(%s::jsonb) AS x(ledger_lot_id bigint, remaining numeric)
WHERE l.organization_id = %s AND l.ledger_lot_id = x.ledger_lot_id
"""

_REMOVE_USES = """
DELETE FROM ledger_lot_uses u USING jsonb_to_recordset(%s::jsonb) AS x(ledger_transaction_id bigint,
    ledger_lot_id bigint)
WHERE u.organization_id = %s AND u.ledger_transaction_id = x.ledger_transaction_id
    AND u.ledger_lot_id = x.ledger_lot_id
"""

_CAPTURE = """
UPDATE ledger_transactions t SET amount = x.amount, status = x.status, fiat_value = x.fiat_value,
    captured_at = %s, updated_at = %s
FROM jsonb_to_recordset(%s::jsonb) AS x(ledger_transaction_id bigint, amount numeric, status smallint,
    fiat_value numeric)
WHERE t.organization_id = %s AND t.ledger_transaction_id = x.ledger_transaction_id
"""

_MARK_REVERTED = """
UPDATE ledger_transactions t SET status = 2, reversal_ledger_transaction_id = x.reversal, updated_at = %s
FROM jsonb_to_recordset(%s::jsonb) AS x(ledger_transaction_id bigint, reversal bigint)
WHERE t.organization_id = %s AND t.ledger_transaction_id = x.ledger_transaction_id
"""

_POSTED = """
SELECT system_unique_key, ledger_transaction_id, request_digest FROM ledger_transactions
WHERE organization_id = %s AND system_unique_key = ANY(%s)
"""

_STORED = """
SELECT t.ledger_transaction_id, t.ledger_account_id, t.transaction_type, t.status, t.amount, t.from_wallet_id,
    t.to_wallet_id, t.is_expiry, t.fiat_value, t.reversal_ledger_transaction_id, t.external_event_date,
    (SELECT count(*) FROM ledger_entries e
     WHERE e.organization_id = t.organization_id AND e.ledger_transaction_id = t.ledger_transaction_id),
    (SELECT coalesce(sum(p.amount), 0) FROM ledger_transactions p WHERE p.organization_id = t.organization_id
     AND p.reverted_ledger_transaction_id = t.ledger_transaction_id AND p.is_partial)
FROM ledger_transactions t WHERE t.organization_id = %s AND t.ledger_transaction_id = ANY(%s)
"""

_USES = """
SELECT u.ledger_transaction_id, u.ledger_lot_id, u.amount, l.expires_at
FROM ledger_lot_uses u JOIN ledger_lots l USING (organization_id, ledger_lot_id)
WHERE u.organization_id = %s AND u.ledger_transaction_id = ANY(%s)
ORDER BY u.ledger_transaction_id, l.expires_at NULLS LAST, u.ledger_lot_id
"""

_LOTS_AT_FIRST = 64

_TRANSACTION_COLUMNS = (
    "organization_id",
    "ledger_transaction_id",
    "ledger_account_id",
    "transaction_type",
    "status",
    "amount",
    "system_unique_key",
    "request_digest",
    "external_id",
    "external_event_date",
    "description",
    "tags",
    "from_wallet_id",
    "to_wallet_id",
    "loyalty_event_id",
    "atomic_set_id",
    "reserved_amount",
    "is_expiry",
    "fiat_value",
    "fiat_gross_amount",
    "fiat_currency",
    "reverted_ledger_transaction_id",
    "is_partial",
    "created_at",
    "updated_at",
)
_ENTRY_COLUMNS = (
    "organization_id",
    "ledger_transaction_id",
    "entry_index",
    "ledger_account_id",
    "wallet_id",
    "amount",
    "updated_balance",
    "is_overdraft",
)
_NEW_LOT_COLUMNS = (
    "organization_id",
    "ledger_lot_id",
    "wallet_id",
    "ledger_account_id",
    "ledger_transaction_id",
    "amount",
    "remaining",
    "expires_at",
    "created_at",
)
_USE_COLUMNS = ("organization_id", "ledger_transaction_id", "ledger_lot_id", "amount")


@dataclass(frozen=True, slots=True)
class PostedBefore:
    """A transaction that was posted under a key; `request_digest` is None where the server itself caused it."""

    ledger_transaction_id: int
    request_digest: bytes | None


def find_posted(db: Connection, organization_id: int, keys: Collection[str]) -> dict[str, PostedBefore]:
    """What was posted under each of these keys."""
    rows = db.exec_driver_sql(_POSTED, (organization_id, list(keys)))
    return {key: PostedBefore(id_, None if digest is None else bytes(digest)) for key, id_, digest in rows}


def find_stored(db: Connection, organization_id: int, transaction_ids: Collection[int]) -> dict[int, Stored]:
    """Transactions that are to be captured or reverted, with the lots that they took, soonest to expire first."""
    if not transaction_ids:
        return {}
    wanted = (organization_id, list(transaction_ids))
    uses: dict[int, list[LotUse]] = {}
    for transaction_id, lot_id, amount, expires_at in db.exec_driver_sql(_USES, wanted):
        uses.setdefault(transaction_id, []).append(LotUse(lot_id, amount, expires_at))
    rows = db.exec_driver_sql(_STORED, wanted)
    return {row[0]: Stored(*(*row, tuple(uses.get(row[0], ())))) for row in rows}


def lock_wallets(db: Connection, organization_id: int, wallet_ids: Collection[int]) -> dict[int, Wallet]:
    """Lock wallets, and with them all that their holders have, in the order of `locks`; answers those there are."""
    rows = db.exec_driver_sql(_LOCK_WALLETS, (organization_id, list(wallet_ids)))
    return {row[1]: Wallet(*row) for row in rows}


def open_books(
    db: Connection, organization_id: int, wallet_ids: Collection[int], ledger_account_ids: Collection[int], at: datetime
) -> Books:
    """The books of locked wallets, on the accounts as they are now; what has expired is burned first."""
    wallets = list(wallet_ids)
    shared = db.exec_driver_sql(_SHARE_ACCOUNTS, (organization_id, list(ledger_account_ids)))
    accounts = {account.ledger_account_id: account for account in records(LedgerAccount, shared)}
    capped = [account_id for account_id, account in accounts.items() if account.max_supply is not None]
    issued: dict[int, Decimal] = {}
    if capped:
        db.exec_driver_sql(_LOCK_CAPPED_ACCOUNTS, (organization_id, capped))
        issued = ledger.issued(db, organization_id, capped)
    holdings = {
        (row[0], row[1]): Holding(*row[2:]) for row in db.exec_driver_sql(_HOLDINGS, (organization_id, wallets))
    }
    books = Books(accounts, holdings, issued, at)
    tracked = {i: a for i, a in accounts.items() if a.point_tracking_enabled}
    if tracked:
        _expire(db, organization_id, books, wallets, holdings, tracked)
    return books


def _expire(
    db: Connection,
    organization_id: int,
    books: Books,
    wallets: list[int],
    holdings: Mapping[Pair, Holding],
    accounts: Mapping[int, LedgerAccount],
) -> None:
    """Burn what lots of the wallets hold past their expiry, so that nothing expired can be spent.

    One transaction for each moment at which something expired, since balances of the past go by it.
    """
    expired: dict[tuple[int, int, datetime], dict[int, LotUse]] = {}
    for wallet_id, account_id, lot_id, remaining, moment in db.exec_driver_sql(
        _EXPIRED_LOTS, (organization_id, wallets, books.at)
    ):
        if account_id in accounts:
            expired.setdefault((wallet_id, account_id, moment), {})[lot_id] = LotUse(lot_id, remaining, moment)
    ended = {
        pair: add_months(held.last_transaction_date, period)
        for pair, held in holdings.items()
        if pair[1] in accounts
        and held.last_transaction_date is not None
        and (period := accounts[pair[1]].expires_after_last_transaction) is not None
        and idle_too_long(period, held.last_transaction_date, books.at)
    }
    if ended:
        rows = db.exec_driver_sql(_ALL_LOTS, (as_json(_as_pairs(ended)), organization_id))
        for wallet_id, account_id, lot_id, remaining, expires_at in rows:
            end = ended[wallet_id, account_id]
            if expires_at is None or expires_at > end:
                expired.get((wallet_id, account_id, expires_at), {}).pop(lot_id, None)
                expired.setdefault((wallet_id, account_id, end), {})[lot_id] = LotUse(lot_id, remaining, expires_at)
    for (wallet_id, account_id, moment), lots in sorted(expired.items(), key=lambda each: each[0]):
        if lots:
            key = f"expiry-{wallet_id}-{account_id}-{max(lots)}-{books.at.timestamp():.6f}"
            books.expire(accounts[account_id], wallet_id, tuple(lots.values()), moment, key)


def write_books(db: Connection, organization_id: int, books: Books, reserved: Sequence[int] = ()) -> list[int]:
    """Write every step and answer the transaction's id of each; a fixed number of statements for any number.

    `reserved` are ids that were taken before, for the first of the postings.
    """
    steps = books.steps
    if not steps:
        return []
    postings = [step for step in steps if isinstance(step, Posting)]
    captures = [step for step in steps if isinstance(step, Capture)]
    missing = max(0, len(postings) - len(reserved))
    fresh = iter([*reserved, *reserve_ids(db, ledger_transactions=missing)["ledger_transactions"]])
    ids = [step.stored.ledger_transaction_id if isinstance(step, Capture) else next(fresh) for step in steps]
    written = list(zip(ids, steps, strict=True))
    add_all(
        db,
        ledger_transactions,
        _TRANSACTION_COLUMNS,
        [_transaction_row(organization_id, i, step, books.at) for i, step in written if isinstance(step, Posting)],
    )
    _settle_stored(db, organization_id, captures, written, books.at)
    add_all(db, ledger_entries, _ENTRY_COLUMNS, _entry_rows(organization_id, written))
    if any(step.lot_moves for step in steps):
        _write_lots(db, organization_id, written, books.at)
    _write_holdings(db, organization_id, books)
    _write_supplies(db, organization_id, steps)
    return ids


def _settle_stored(
    db: Connection, organization_id: int, captures: Sequence[Capture], written: Sequence[tuple[int, Step]], at: datetime
) -> None:
    """Bring transactions that were stored before up to date: captured, or reverted by one of this unit of work."""
    if captures:
        rows: list[dict[str, Any]] = [
            {
                "ledger_transaction_id": capture.stored.ledger_transaction_id,
                # Nothing captured is a release, which leaves on record what was set aside.
                "amount": capture.amount or capture.stored.amount,
                "status": SETTLED if capture.amount else REVERTED,
                "fiat_value": capture.fiat_value,
            }
            for capture in captures
        ]
        db.exec_driver_sql(_CAPTURE, (at, at, as_json(rows), organization_id))
    reverted = [
        {"ledger_transaction_id": step.reverts.ledger_transaction_id, "reversal": transaction_id}
        for transaction_id, step in written
        if isinstance(step, Posting) and step.reverts is not None and not step.is_partial
    ]
    if reverted:
        db.exec_driver_sql(_MARK_REVERTED, (at, as_json(reverted), organization_id))


def _entry_rows(organization_id: int, written: Sequence[tuple[int, Step]]) -> list[dict[str, Any]]:
    return [
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
        for transaction_id, step in written
        for index, entry in enumerate(step.entries, step.stored.entry_count if isinstance(step, Capture) else 0)
    ]


def _transaction_row(organization_id: int, transaction_id: int, posting: Posting, at: datetime) -> dict[str, Any]:
    details = posting.details
    return {
        "organization_id": organization_id,
        "ledger_transaction_id": transaction_id,
        "ledger_account_id": posting.account.ledger_account_id,
        "transaction_type": posting.transaction_type,
        "status": posting.status,
        "amount": posting.amount,
        "system_unique_key": details.system_unique_key,
        "request_digest": None if details.request_digest is None else "\\x" + details.request_digest.hex(),
        "external_id": details.external_id,
        "external_event_date": details.external_event_date,
        "description": details.description,
        "tags": details.tags,
        "from_wallet_id": posting.from_wallet_id,
        "to_wallet_id": posting.to_wallet_id,
        "loyalty_event_id": details.loyalty_event_id,
        "atomic_set_id": details.atomic_set_id,
        "reserved_amount": posting.amount if posting.status == PENDING else None,
        "is_expiry": posting.is_expiry,
        "fiat_value": posting.fiat_value,
        "fiat_gross_amount": details.fiat.gross_amount,
        "fiat_currency": details.fiat.currency,
        "reverted_ledger_transaction_id": posting.reverts.ledger_transaction_id if posting.reverts else None,
        "is_partial": posting.is_partial,
        "created_at": at,
        "updated_at": at,
    }


def _write_holdings(db: Connection, organization_id: int, books: Books) -> None:
    rows = []
    for wallet_id, account_id in sorted(books.changed):
        held = books.holding(wallet_id, account_id)
        rows.append(
            {
                "organization_id": organization_id,
                "wallet_id": wallet_id,
                "ledger_account_id": account_id,
                "current": held.current,
                "pending_credit": held.pending_credit,
                "pending_debit": held.pending_debit,
                "overdraft": held.overdraft,
                "overdraft_credit": held.overdraft_credit,
                "fiat": held.fiat,
                "last_transaction_date": held.last_transaction_date,
                "at": books.at,
            }
        )
    db.exec_driver_sql(_WRITE_HOLDINGS, (as_json(rows),))


def _write_supplies(db: Connection, organization_id: int, steps: Iterable[Step]) -> None:
    totals: dict[int, dict[str, Any]] = {}
    for step in steps:
        account_id = step.account.ledger_account_id
        total = totals.setdefault(
            account_id,
            {"organization_id": organization_id, "ledger_account_id": account_id, "minted": 0, "burned": 0},
        )
        total["minted"] += step.minted
        total["burned"] += step.burned
    rows = [total for total in totals.values() if total["minted"] or total["burned"]]
    if rows:
        db.exec_driver_sql(_WRITE_SUPPLIES, (as_json(rows),))


def _write_lots(db: Connection, organization_id: int, written: Sequence[tuple[int, Step]], at: datetime) -> None:
    """Work out which lots the steps make and take, in their order, and write what has become of them."""
    allocator = Allocator(_lots_for(db, organization_id, [step for _, step in written]))
    for transaction_id, step in written:
        for move in step.lot_moves:
            allocator.apply(transaction_id, move)
    found = allocator.found
    ids = dict(zip(found.new, reserve_ids(db, ledger_lots=len(found.new))["ledger_lots"], strict=True))
    add_all(
        db,
        ledger_lots,
        _NEW_LOT_COLUMNS,
        [
            {
                "organization_id": organization_id,
                "ledger_lot_id": ids[lot.ledger_lot_id],
                "wallet_id": lot.wallet_id,
                "ledger_account_id": lot.ledger_account_id,
                "ledger_transaction_id": lot.ledger_transaction_id,
                "amount": lot.amount,
                "remaining": lot.remaining,
                "expires_at": lot.expires_at,
                "created_at": at,
            }
            for lot in found.new.values()
        ],
    )
    if found.left:
        left = [{"ledger_lot_id": lot_id, "remaining": remaining} for lot_id, remaining in found.left.items()]
        db.exec_driver_sql(_WRITE_LOTS_LEFT, (as_json(left), organization_id))
    _write_uses(db, organization_id, found, ids)


def _write_uses(db: Connection, organization_id: int, found: Allocation, ids: Mapping[int, int]) -> None:
    if found.changed_uses:
        gone = [{"ledger_transaction_id": t, "ledger_lot_id": lot_id} for t, lot_id in found.changed_uses]
        db.exec_driver_sql(_REMOVE_USES, (as_json(gone), organization_id))
    uses = {**{key: amount for key, amount in found.changed_uses.items() if amount}, **found.uses}
    add_all(
        db,
        ledger_lot_uses,
        _USE_COLUMNS,
        [
            {
                "organization_id": organization_id,
                "ledger_transaction_id": transaction_id,
                "ledger_lot_id": ids.get(lot_id, lot_id),
                "amount": amount,
            }
            for (transaction_id, lot_id), amount in uses.items()
        ],
    )


def _lots_for(db: Connection, organization_id: int, steps: Iterable[Step]) -> list[Lot]:
    """The lots that the steps may touch: enough spendable ones of each pair, and those that they name."""
    wanted: dict[Pair, Decimal] = {}
    named: set[int] = set()
    first_of: set[int] = set()
    for move in (move for step in steps for move in step.lot_moves):
        if isinstance(move, TakeLots | MoveLots):
            wallet_id = move.wallet_id if isinstance(move, TakeLots) else move.from_wallet_id
            pair = (wallet_id, move.ledger_account_id)
            wanted[pair] = wanted.get(pair, Decimal(0)) + move.amount
            if isinstance(move, TakeLots):
                named.update(use.ledger_lot_id for use in move.only)
                first_of.update(() if move.first_of is None else (move.first_of,))
        elif isinstance(move, RestoreLots):
            named.update(use.ledger_lot_id for use in (*move.returned, *move.spent))
        elif isinstance(move, SettleLots):
            named.update(use.ledger_lot_id for use in (*move.kept, *move.released))
    found = {lot.ledger_lot_id: lot for lot in _spendable_lots(db, organization_id, wanted)}
    if named or first_of:
        rows = db.exec_driver_sql(_NAMED_LOTS, (organization_id, list(named), organization_id, list(first_of)))
        found.update({lot.ledger_lot_id: lot for lot in (Lot(*row) for row in rows)})
    return list(found.values())


def _spendable_lots(db: Connection, organization_id: int, wanted: Mapping[Pair, Decimal]) -> list[Lot]:
    """Lots that cover what is wanted of each pair, or all there are; few are read where few are enough."""
    found: dict[Pair, list[Lot]] = {}
    missing, limit = dict(wanted), _LOTS_AT_FIRST
    while missing:
        found.update({pair: [] for pair in missing})
        for row in db.exec_driver_sql(_SPENDABLE_LOTS, (as_json(_as_pairs(missing)), organization_id, limit)):
            lot = Lot(*row)
            found[lot.wallet_id, lot.ledger_account_id].append(lot)
        missing = {
            pair: amount
            for pair, amount in missing.items()
            if len(found[pair]) == limit and sum(lot.remaining for lot in found[pair]) < amount
        }
        limit *= 8
    return [lot for lots in found.values() for lot in lots]


def _as_pairs(pairs: Iterable[Pair]) -> list[dict[str, int]]:
    return [{"wallet_id": wallet_id, "ledger_account_id": account_id} for wallet_id, account_id in pairs]
