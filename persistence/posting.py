"""Opening the books on locked wallets, and writing what was posted: a fixed number of statements for any number."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection

from domain.ledger.books import Books, Details, Holding, Pair, Posting
from domain.ledger.expiry import idle_too_long
from domain.ledger.lots import Lot, consume, in_order_of_expiry
from domain.ledger.records import BURN, MINT, LedgerAccount
from persistence import ledger
from persistence.rows import add_all, as_json, reserve_ids
from persistence.tables.ledger import ledger_entries, ledger_lot_uses, ledger_lots, ledger_transactions

_LOCK_WALLETS = """
SELECT wallet_id FROM wallets WHERE organization_id = %s AND wallet_id = ANY(%s)
ORDER BY wallet_id FOR NO KEY UPDATE
"""

_HOLDINGS = """
SELECT wallet_id, ledger_account_id, current_balance, pending_credit_balance, pending_debit_balance,
       current_overdraft_balance, total_overdraft_credit_balance, total_fiat_value, last_transaction_date
FROM ledger_balances WHERE organization_id = %s AND wallet_id = ANY(%s)
"""

# Sharing the account's row keeps a change of its rules waiting until what was decided by them is committed.
_SHARE_ACCOUNTS = """
SELECT ledger_account_id FROM ledger_accounts WHERE organization_id = %s AND ledger_account_id = ANY(%s)
ORDER BY ledger_account_id FOR KEY SHARE
"""

_LOCK_CAPPED_ACCOUNTS = """
SELECT ledger_account_id FROM ledger_accounts WHERE organization_id = %s AND ledger_account_id = ANY(%s)
ORDER BY ledger_account_id FOR NO KEY UPDATE
"""

_EXPIRED_LOTS = """
SELECT wallet_id, ledger_account_id, ledger_lot_id, remaining FROM ledger_lots
WHERE organization_id = %s AND wallet_id = ANY(%s) AND remaining > 0 AND expires_at <= %s
ORDER BY wallet_id, ledger_account_id, ledger_lot_id
"""

_ALL_LOTS = """
SELECT l.wallet_id, l.ledger_account_id, l.ledger_lot_id, l.remaining
FROM ledger_lots l JOIN jsonb_to_recordset(%s::jsonb) AS p(wallet_id bigint, ledger_account_id bigint)
  USING (wallet_id, ledger_account_id)
WHERE l.organization_id = %s AND l.remaining > 0 ORDER BY l.ledger_lot_id
"""

_SPENDABLE_LOTS = """
SELECT p.wallet_id, p.ledger_account_id, l.ledger_lot_id, l.expires_at, l.remaining
FROM jsonb_to_recordset(%s::jsonb) AS p(wallet_id bigint, ledger_account_id bigint)
CROSS JOIN LATERAL (
    SELECT ledger_lot_id, expires_at, remaining FROM ledger_lots
    WHERE organization_id = %s AND wallet_id = p.wallet_id AND ledger_account_id = p.ledger_account_id AND remaining > 0
    ORDER BY expires_at NULLS LAST, ledger_lot_id LIMIT %s
) l
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
UPDATE ledger_lots l SET remaining = l.remaining - x.used
FROM jsonb_to_recordset(%s::jsonb) AS x(ledger_lot_id bigint, used numeric)
WHERE l.organization_id = %s AND l.ledger_lot_id = x.ledger_lot_id
"""

_BY_KEY = """
SELECT ledger_transaction_id, amount, from_wallet_id, to_wallet_id, atomic_set_id, request_digest
FROM ledger_transactions WHERE organization_id = %s AND system_unique_key = %s
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
_LOT_COLUMNS = (
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
    amount: Decimal
    from_wallet_id: int | None
    to_wallet_id: int | None
    atomic_set_id: str | None
    request_digest: bytes | None


def find_by_key(db: Connection, organization_id: int, system_unique_key: str) -> PostedBefore | None:
    """The transaction that was posted under this key."""
    row = db.exec_driver_sql(_BY_KEY, (organization_id, system_unique_key)).one_or_none()
    return None if row is None else PostedBefore(*row[:-1], None if row[-1] is None else bytes(row[-1]))


def lock_wallets(db: Connection, organization_id: int, wallet_ids: Collection[int]) -> None:
    """Lock wallets, and with them all that their holders have, in the order of `locks`."""
    db.exec_driver_sql(_LOCK_WALLETS, (organization_id, list(wallet_ids)))


def open_books(
    db: Connection,
    organization_id: int,
    wallet_ids: Collection[int],
    accounts: Mapping[int, LedgerAccount],
    at: datetime,
) -> Books:
    """The books of wallets that the caller has locked, for posting to `accounts`; what has expired is burned first."""
    wallets = list(wallet_ids)
    capped = sorted(a.ledger_account_id for a in accounts.values() if a.max_supply is not None)
    shared = sorted(a.ledger_account_id for a in accounts.values() if a.max_supply is None)
    if shared:
        db.exec_driver_sql(_SHARE_ACCOUNTS, (organization_id, shared))
    issued: dict[int, Decimal] = {}
    if capped:
        db.exec_driver_sql(_LOCK_CAPPED_ACCOUNTS, (organization_id, capped))
        issued = ledger.issued(db, organization_id, capped)
    holdings = {
        (row[0], row[1]): Holding(*row[2:]) for row in db.exec_driver_sql(_HOLDINGS, (organization_id, wallets))
    }
    books = Books(holdings, issued, at)
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
    """Burn what lots of the wallets hold past their expiry, so that nothing expired can be spent."""
    expired: dict[Pair, dict[int, Decimal]] = {}
    idle = [
        pair
        for pair, held in holdings.items()
        if pair[1] in accounts
        and idle_too_long(accounts[pair[1]].expires_after_last_transaction, held.last_transaction_date, books.at)
    ]
    rows: list[Any] = list(db.exec_driver_sql(_EXPIRED_LOTS, (organization_id, wallets, books.at)))
    if idle:
        rows += db.exec_driver_sql(_ALL_LOTS, (as_json(_as_pairs(idle)), organization_id))
    for wallet_id, account_id, lot_id, remaining in rows:
        if account_id in accounts:
            expired.setdefault((wallet_id, account_id), {})[lot_id] = remaining
    for (wallet_id, account_id), lots in sorted(expired.items()):
        details = Details(
            system_unique_key=f"expiry-{wallet_id}-{account_id}-{max(lots)}-{books.at.timestamp():.6f}",
            description="Expired",
        )
        books.expire(accounts[account_id], wallet_id, tuple(lots.items()), details)


def write_books(db: Connection, organization_id: int, books: Books) -> list[int]:
    """Write everything that was posted and answer the transactions' ids in the order of the postings."""
    postings = books.postings
    if not postings:
        return []
    tracked = [p for p in postings if p.account.point_tracking_enabled]
    reserved = reserve_ids(db, ledger_transactions=len(postings), ledger_lots=sum(1 for p in tracked if p.lot_amount))
    ids = reserved["ledger_transactions"]
    add_all(
        db,
        ledger_transactions,
        _TRANSACTION_COLUMNS,
        [_transaction_row(organization_id, i, p, books.at) for i, p in zip(ids, postings, strict=True)],
    )
    add_all(
        db,
        ledger_entries,
        _ENTRY_COLUMNS,
        [
            {
                "organization_id": organization_id,
                "ledger_transaction_id": transaction_id,
                "entry_index": index,
                "ledger_account_id": posting.account.ledger_account_id,
                "wallet_id": entry.wallet_id,
                "amount": entry.amount,
                "updated_balance": entry.updated_balance,
                "is_overdraft": entry.is_overdraft,
            }
            for transaction_id, posting in zip(ids, postings, strict=True)
            for index, entry in enumerate(posting.entries)
        ],
    )
    if tracked:
        _write_lots(db, organization_id, books, list(zip(ids, postings, strict=True)), reserved["ledger_lots"])
    _write_holdings(db, organization_id, books)
    _write_supplies(db, organization_id, postings)
    return ids


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


def _write_supplies(db: Connection, organization_id: int, postings: Iterable[Posting]) -> None:
    totals: dict[int, dict[str, Any]] = {}
    for posting in postings:
        account_id = posting.account.ledger_account_id
        total = totals.setdefault(
            account_id,
            {"organization_id": organization_id, "ledger_account_id": account_id, "minted": 0, "burned": 0},
        )
        if posting.transaction_type == MINT:
            total["minted"] += posting.amount
        elif posting.transaction_type == BURN:
            total["burned"] += posting.amount
    db.exec_driver_sql(_WRITE_SUPPLIES, (as_json(list(totals.values())),))


def _write_lots(
    db: Connection,
    organization_id: int,
    books: Books,
    written: Sequence[tuple[int, Posting]],
    lot_ids: list[int],
) -> None:
    """Make the lots of mints and take burns from the lots that expire soonest, in the order of the postings."""
    burned: dict[Pair, Decimal] = {}
    for _, posting in written:
        if posting.account.point_tracking_enabled and posting.from_wallet_id is not None:
            pair = (posting.from_wallet_id, posting.account.ledger_account_id)
            burned[pair] = burned.get(pair, Decimal(0)) + posting.amount
    lots = _spendable_lots(db, organization_id, burned)
    new_lots, uses = [], []
    fresh_ids = iter(lot_ids)
    for transaction_id, posting in written:
        account_id = posting.account.ledger_account_id
        if posting.lot_amount and posting.to_wallet_id is not None:
            lot = Lot(next(fresh_ids), posting.lot_expires_at, posting.lot_amount)
            lots.setdefault((posting.to_wallet_id, account_id), []).append(lot)
            new_lots.append(_lot_row(organization_id, transaction_id, posting, lot, books.at))
        elif posting.account.point_tracking_enabled and posting.from_wallet_id is not None:
            pair = (posting.from_wallet_id, account_id)
            taken = posting.expired_lots
            if taken:
                taken = tuple((lot_id or new_lots[-1]["ledger_lot_id"], amount) for lot_id, amount in taken)
                gone = {lot_id for lot_id, _ in taken}
                lots[pair] = [lot for lot in lots[pair] if lot.ledger_lot_id not in gone]
            else:
                found, lots[pair], missing = consume(sorted(lots[pair], key=in_order_of_expiry), posting.amount)
                if missing:
                    raise RuntimeError(f"wallet {pair[0]}: lots of account {account_id} do not cover its balance")
                taken = tuple(found)
            uses += [(transaction_id, lot_id, amount) for lot_id, amount in taken]
    _store_lots(db, organization_id, new_lots, uses)


def _lot_row(organization_id: int, transaction_id: int, posting: Posting, lot: Lot, at: datetime) -> dict[str, Any]:
    return {
        "organization_id": organization_id,
        "ledger_lot_id": lot.ledger_lot_id,
        "wallet_id": posting.to_wallet_id,
        "ledger_account_id": posting.account.ledger_account_id,
        "ledger_transaction_id": transaction_id,
        "amount": lot.remaining,
        "remaining": lot.remaining,
        "expires_at": lot.expires_at,
        "created_at": at,
    }


def _store_lots(
    db: Connection, organization_id: int, new_lots: list[dict[str, Any]], uses: list[tuple[int, int, Decimal]]
) -> None:
    add_all(db, ledger_lots, _LOT_COLUMNS, new_lots)
    if not uses:
        return
    used: dict[int, Decimal] = {}
    for _, lot_id, amount in uses:
        used[lot_id] = used.get(lot_id, Decimal(0)) + amount
    add_all(
        db, ledger_lot_uses, _USE_COLUMNS, [dict(zip(_USE_COLUMNS, (organization_id, *u), strict=True)) for u in uses]
    )
    left = [{"ledger_lot_id": lot_id, "used": amount} for lot_id, amount in used.items()]
    db.exec_driver_sql(_WRITE_LOTS_LEFT, (as_json(left), organization_id))


def _spendable_lots(db: Connection, organization_id: int, burned: Mapping[Pair, Decimal]) -> dict[Pair, list[Lot]]:
    """The lots that cover what is burned of each pair, or all there are; few are read where few are enough."""
    found: dict[Pair, list[Lot]] = {}
    wanted, limit = dict(burned), _LOTS_AT_FIRST
    while wanted:
        for pair in wanted:
            found[pair] = []
        rows = db.exec_driver_sql(_SPENDABLE_LOTS, (as_json(_as_pairs(wanted)), organization_id, limit))
        for wallet_id, account_id, lot_id, expires_at, remaining in rows:
            found[wallet_id, account_id].append(Lot(lot_id, expires_at, remaining))
        wanted = {
            pair: amount
            for pair, amount in wanted.items()
            if len(found[pair]) == limit and sum(lot.remaining for lot in found[pair]) < amount
        }
        limit *= 8
    return found


def _as_pairs(pairs: Iterable[Pair]) -> list[dict[str, int]]:
    return [{"wallet_id": wallet_id, "ledger_account_id": account_id} for wallet_id, account_id in pairs]
