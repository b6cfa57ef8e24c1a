"""Ledger transactions for display: one row for each wallet and part that a transaction affects."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, case, cast, func, insert, literal, null, or_, select, union_all

from domain.ledger.availability import AVAILABLE, WAITING
from domain.ledger.records import MINT, PENDING, REVERT, SETTLED, LedgerAccount, StoredTransaction
from domain.ledger.views import TransactionRow
from persistence.counts import MAX_COUNTED, RowCount
from persistence.filters import is_same
from persistence.paging import Page, Paged, paged_columns, sorting_of
from persistence.records import Records
from persistence.tables.ledger import ledger_accounts, ledger_entries, ledger_transactions

_t, _e, _a = ledger_transactions, ledger_entries.alias("e"), ledger_accounts
_other = ledger_entries.alias("other")

_ORDER_COLUMNS = {
    "externalEventDate": _t.c.external_event_date,
    "amount": _t.c.amount,
    "createdAt": _t.c.created_at,
    "updatedAt": _t.c.updated_at,
}

_SAME_TRANSACTION = is_same(_other, _e, "ledger_transaction_id")

# A pending transaction has entries of zero; once others show what it moved, the zeros are hidden. The others are
# counted, since the planner would evaluate a mere "exists" by a scan of the whole table.
_MOVING_ENTRIES = select(func.count()).where(_SAME_TRANSACTION, _other.c.amount != 0).correlate(_e).scalar_subquery()
_SHOWN = or_(_e.c.amount.is_(None), _e.c.amount != 0, _MOVING_ENTRIES == 0)

_EARLIER_ENTRIES = (
    select(func.count())
    .where(_SAME_TRANSACTION, _other.c.wallet_id.is_not(None), _other.c.entry_index < _e.c.entry_index)
    .correlate(_e)
)
_DETAIL_INDEX = _EARLIER_ENTRIES.where(or_(_other.c.amount != 0, _e.c.amount == 0)).scalar_subquery()

# The part of a transaction that had expired on arrival is gone at once: its balance is shown without it.
_expiry, _expired = ledger_transactions.alias("expiry"), ledger_entries.alias("expired")
_BALANCE_WITHOUT_EXPIRED = (
    select(_expired.c.updated_balance)
    .where(
        _expiry.c.organization_id == _t.c.organization_id,
        _expiry.c.part_of_ledger_transaction_id == _t.c.ledger_transaction_id,
        _expiry.c.is_expiry,
        is_same(_expired, _expiry, "ledger_transaction_id"),
        _expired.c.wallet_id == _e.c.wallet_id,
    )
    .order_by(_expired.c.ledger_transaction_id.desc())
    .limit(1)
    .correlate(_t, _e)
    .scalar_subquery()
)

# A mint that was not available at once.
_IS_TIMED = or_(_t.c.available_at.is_not(None), _t.c.available_on.is_not(None))

# The event that a mint waits for, as requests name it; null for others.
_AWAITED_EVENT = case(
    (
        _t.c.available_on.is_not(None),
        func.jsonb_build_object(
            "eventTypes", _t.c.available_on["eventTypes"], "cancelAfter", _t.c.available_on["cancelAfter"]
        ),
    )
)

_COMPUTED: Mapping[str, Any] = {
    "ledger_transaction_detail_index": _DETAIL_INDEX,
    "ledger_account_key": _a.c.ledger_account_key,
    # Zero entries mark all that a pending transaction sets aside.
    "amount": case((func.coalesce(_e.c.amount, 0) == 0, _t.c.amount), else_=func.abs(_e.c.amount)),
    "wallet_id": _e.c.wallet_id,
    "updated_balance": func.coalesce(_BALANCE_WITHOUT_EXPIRED, _e.c.updated_balance),
    "tags": func.coalesce(_t.c.tags, cast([], _t.c.tags.type)),
    "is_overdraft": func.coalesce(_e.c.is_overdraft, literal(False)),
    "availability": case((and_(_t.c.status == PENDING, _IS_TIMED), WAITING), else_=AVAILABLE),
    "available_at": case((_t.c.status == PENDING, _t.c.available_at)),
    "available_on": case((and_(_t.c.status == PENDING, _t.c.available_at.is_(None)), _AWAITED_EVENT)),
}
_STORED = [f.name for f in fields(TransactionRow) if f.name != "lots"]
_COLUMNS = [_COMPUTED.get(name, _t.c.get(name)).label(name) for name in _STORED]

# The transaction as it was created, without changes by its capture and its revert.
_MADE_PENDING = _t.c.reserved_amount.is_not(None)
_FIRST_AMOUNT = func.coalesce(_t.c.reserved_amount, _t.c.amount)
_FIRST: Mapping[str, Any] = {
    **_COMPUTED,
    "ledger_transaction_detail_index": _EARLIER_ENTRIES.scalar_subquery(),
    "amount": case((func.coalesce(_e.c.amount, 0) == 0, _FIRST_AMOUNT), else_=func.abs(_e.c.amount)),
    # A revert that released what was pending is made released, and none changes later.
    "status": case((_MADE_PENDING, PENDING), (_t.c.transaction_type == REVERT, _t.c.status), else_=SETTLED),
    "reversal_ledger_transaction_id": cast(null(), _t.c.reversal_ledger_transaction_id.type),
    "availability": case((_IS_TIMED, WAITING), else_=AVAILABLE),
    # The moment of a mint that waits for an event became known later.
    "available_at": case((_t.c.available_on.is_(None), _t.c.available_at)),
    "available_on": _AWAITED_EVENT,
    "updated_at": _t.c.created_at,
}
_FIRST_COLUMNS = [_FIRST.get(name, _t.c.get(name)).label(name) for name in _STORED]

_ENTRY_OF_TRANSACTION = is_same(_e, _t, "ledger_transaction_id") & _e.c.wallet_id.is_not(None)
_ACCOUNT_OF_TRANSACTION = is_same(_a, _t, "ledger_account_id")


TRANSACTIONS = Records(_t, StoredTransaction)


def rows_as_answered(
    db: Connection, organization_id: int, ledger_transaction_ids: Collection[int]
) -> dict[int, list[TransactionRow]]:
    """The rows of transactions in the state of their creation, by transaction, in one query.

    The rows of a transaction are followed by those of its parts, except expiries. After a partial capture the fiat
    value is that of the capture, since the original one is not kept.
    """
    joined = _t.join(_a, _ACCOUNT_OF_TRANSACTION).outerjoin(_e, _ENTRY_OF_TRANSACTION)
    ids = set(ledger_transaction_ids)
    part_of = _t.c.part_of_ledger_transaction_id
    is_named = _t.c.ledger_transaction_id.in_(ids)
    # Each has an index; for the one or the other, the planner may read all transactions of the account.
    transactions_by_id, parts = (
        select(*_FIRST_COLUMNS, part_of)
        .select_from(joined)
        # A pending transaction is made with entries of zero; its capture adds the entries that move points.
        .where(_t.c.organization_id == organization_id, condition, or_(~_MADE_PENDING, _e.c.amount == 0))
        for condition in (is_named, and_(part_of.in_(ids), ~_t.c.is_expiry, ~is_named))
    )
    rows = union_all(transactions_by_id, parts).order_by("ledger_transaction_id", "ledger_transaction_detail_index")
    by_transaction: dict[int, list[TransactionRow]] = {}
    for *row, of_transaction in db.execute(rows):
        transaction_row = TransactionRow(*row)
        owner = of_transaction if of_transaction in ids else transaction_row.ledger_transaction_id
        by_transaction.setdefault(owner, []).append(transaction_row)
    return by_transaction


def add_zero(db: Connection, account: LedgerAccount, **values: Any) -> int:
    """Insert a transaction without movement that records a change of the account; returns its id."""
    statement = insert(_t).values(
        organization_id=account.organization_id,
        ledger_account_id=account.ledger_account_id,
        transaction_type=MINT,
        status=SETTLED,
        amount=0,
        **values,
    )
    ledger_transaction_id: int = db.execute(statement.returning(_t.c.ledger_transaction_id)).scalar_one()
    return ledger_transaction_id


def rows_of_account(
    db: Connection, organization_id: int, ledger_account_id: int, filters: Mapping[str, Any], page: Page
) -> Paged[TransactionRow]:
    """A page of the rows of an account's transactions; `filters` as in `_conditions`, and `wallet_id`.

    A transaction that affects no wallet has one row without any.
    """
    is_of_account = _t.c.ledger_account_id == ledger_account_id
    if "wallet_id" in filters:
        # From the wallet's side: the index of its entries then leads to no more than its own transactions.
        conditions = [is_of_account, _e.c.ledger_account_id == ledger_account_id]
        return _rows_of_wallet(db, organization_id, filters["wallet_id"], conditions, filters, page)
    joined = _t.join(_a, _ACCOUNT_OF_TRANSACTION).outerjoin(_e, _ENTRY_OF_TRANSACTION)
    conditions = [_t.c.organization_id == organization_id, is_of_account, *_conditions(filters)]
    return _page(
        db,
        joined,
        [*conditions, _SHOWN],
        page,
        _t.c.ledger_transaction_id,
        count=lambda: _count_rows_of_account(db, organization_id, conditions),
    )


def _count_rows_of_account(db: Connection, organization_id: int, conditions: list[Any]) -> RowCount:
    """As `count_rows`, by looking up the entries of no more transactions than are counted."""
    transactions = select(_t.c.ledger_transaction_id).where(*conditions).limit(MAX_COUNTED + 1).subquery()
    # As `_SHOWN`: entries of zero where there are no others; and a row without a wallet where there are none at all.
    moving = func.nullif(func.count().filter(_e.c.amount != 0), 0)
    row_count = (
        select(func.greatest(1, func.coalesce(moving, func.count())))
        .where(
            _e.c.organization_id == organization_id,
            _e.c.ledger_transaction_id == transactions.c.ledger_transaction_id,
            _e.c.wallet_id.is_not(None),
        )
        .correlate(transactions)
        .scalar_subquery()
    )
    count = db.execute(select(func.coalesce(func.sum(row_count), 0)).select_from(transactions)).scalar_one()
    return RowCount(min(int(count), MAX_COUNTED + 1), is_exact=count <= MAX_COUNTED)


def rows_of_wallet(
    db: Connection, organization_id: int, wallet_id: int, filters: Mapping[str, Any], page: Page
) -> Paged[TransactionRow]:
    """A page of a wallet's rows on all accounts; `filters` as in `_conditions`, and `ledger_account_key`."""
    conditions = []
    if "ledger_account_key" in filters:
        of_key = (
            select(_a.c.ledger_account_id)
            .where(_a.c.organization_id == organization_id, _a.c.ledger_account_key == filters["ledger_account_key"])
            .correlate(None)
            .scalar_subquery()
        )
        conditions.append(_e.c.ledger_account_id == of_key)
    return _rows_of_wallet(db, organization_id, wallet_id, conditions, filters, page)


def _rows_of_wallet(
    db: Connection,
    organization_id: int,
    wallet_id: int,
    conditions: list[Any],
    filters: Mapping[str, Any],
    page: Page,
) -> Paged[TransactionRow]:
    is_of_wallet = (_e.c.organization_id == organization_id, _e.c.wallet_id == wallet_id)
    joined = _e.join(_t, _ENTRY_OF_TRANSACTION).join(_a, _ACCOUNT_OF_TRANSACTION)
    ids = _e.c.ledger_transaction_id, _t.c.ledger_transaction_id
    return _page(db, joined, [*is_of_wallet, _SHOWN, *conditions, *_conditions(filters)], page, *ids)


def _conditions(filters: Mapping[str, Any]) -> list[Any]:
    """The conditions on transactions by the given filters.

    They are from_date (inclusive), to_date (exclusive), from_id and to_id (both inclusive), system_unique_key, tags
    (all of them).
    """
    conditions: list[Any] = []
    from_date: datetime | None = filters.get("from_date")
    to_date: datetime | None = filters.get("to_date")
    if from_date is not None:
        conditions.append(_t.c.external_event_date >= from_date)
    if to_date is not None:
        conditions.append(_t.c.external_event_date < to_date)
    if "from_id" in filters:
        conditions.append(_t.c.ledger_transaction_id >= filters["from_id"])
    if "to_id" in filters:
        conditions.append(_t.c.ledger_transaction_id <= filters["to_id"])
    if "system_unique_key" in filters:
        conditions.append(_t.c.system_unique_key == filters["system_unique_key"])
    if "tags" in filters:
        conditions.append(_t.c.tags.op("@>")(cast(filters["tags"], _t.c.tags.type)))
    return conditions


def _page(
    db: Connection,
    joined: Any,
    conditions: list[Any],
    page: Page,
    transaction_id: Any,
    twin: Any = None,
    count: Callable[[], RowCount] | None = None,
) -> Paged[TransactionRow]:
    """A page of the rows, by default newest first; the rows of one transaction always in their own order.

    `transaction_id` is the column of the table that the query begins with. `twin` is the column with the same id in
    the joined table, if each row has one.
    """
    columns = {**_ORDER_COLUMNS, "ledgerTransactionId": transaction_id}
    sorting = sorting_of(page.order, columns, transaction_id, _e.c.entry_index, twin)
    return paged_columns(db, TransactionRow, _COLUMNS, joined, conditions, page, sorting, count)
