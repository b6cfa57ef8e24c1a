"""Ledger transactions for display: a transaction has one row for each of its entries that belongs to a wallet."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, case, cast, func, insert, literal, null, or_, select, true, union_all

from domain.ledger.availability import AVAILABLE, WAITING
from domain.ledger.records import MINT, PENDING, REVERT, SETTLED, LedgerAccount, TransactionIds
from domain.ledger.views import TransactionRow
from persistence.counts import MAX_COUNTED, RowCount
from persistence.filters import ORGANIZATION, is_related, is_same, lateral_row
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

_SAME_TRANSACTION = is_related(_other, _e, "ledger_transaction_id")

# A pending transaction has entries of zero; after its capture other entries have the moved amounts, and the zeros are
# hidden. The other entries are counted, since the planner would evaluate EXISTS by a scan of the whole table.
_MOVING_ENTRIES = select(func.count()).where(_SAME_TRANSACTION, _other.c.amount != 0).correlate(_e).scalar_subquery()
_SHOWN = or_(_e.c.amount.is_(None), _e.c.amount != 0, _MOVING_ENTRIES == 0)

_EARLIER_ENTRIES = (
    select(func.count())
    .where(_SAME_TRANSACTION, _other.c.wallet_id.is_not(None), _other.c.entry_index < _e.c.entry_index)
    .correlate(_e)
)
_DETAIL_INDEX = _EARLIER_ENTRIES.where(or_(_other.c.amount != 0, _e.c.amount == 0)).scalar_subquery()

# If a part of the points had expired on arrival, an expiry follows at once: the row has the balance after the expiry.
_expiry, _expired = ledger_transactions.alias("expiry"), ledger_entries.alias("expired")
_expiries = (
    select(_expiry.c.organization_id, _expiry.c.ledger_transaction_id)
    .where(
        _expiry.c.organization_id == ORGANIZATION,
        _expiry.c.part_of_ledger_transaction_id == _t.c.ledger_transaction_id,
        _expiry.c.is_expiry,
    )
    .correlate(_t)
    # The planner cannot begin with all entries of the wallet instead (see `lateral_row`).
    .offset(0)
    .subquery("expiries")
)
_entry_of_expiry = lateral_row(_expired, (_expiries, "ledger_transaction_id"))
_BALANCE_WITHOUT_EXPIRED = (
    select(_entry_of_expiry.c.updated_balance)
    .select_from(_expiries.join(_entry_of_expiry, true()))
    .where(_entry_of_expiry.c.wallet_id == _e.c.wallet_id)
    .order_by(_expiries.c.ledger_transaction_id.desc())
    .limit(1)
    .correlate(_t, _e)
    .scalar_subquery()
)

# The condition that a transaction is a mint that was not available at once.
_HAS_WAIT = or_(_t.c.available_at.is_not(None), _t.c.available_on.is_not(None))

# The event that a mint waits for, in the form of requests; null for mints that wait for none.
_AWAITED_EVENT = case(
    (
        _t.c.available_on.is_not(None),
        func.jsonb_build_object(
            "eventTypes", _t.c.available_on["eventTypes"], "cancelAfter", _t.c.available_on["cancelAfter"]
        ),
    )
)

# Looked up for each row of a page. If the lists joined the accounts, the planner could join them with the transactions
# before the entries, and compare each entry of a wallet with all transactions of the organization.
_ACCOUNT_KEY = (
    select(_a.c.ledger_account_key).where(is_related(_a, _t, "ledger_account_id")).correlate(_t).scalar_subquery()
)

_COMPUTED: Mapping[str, Any] = {
    "ledger_transaction_detail_index": _DETAIL_INDEX,
    "ledger_account_key": _ACCOUNT_KEY,
    # An entry of zero is that of a pending transaction, which reserves its whole amount.
    "amount": case((func.coalesce(_e.c.amount, 0) == 0, _t.c.amount), else_=func.abs(_e.c.amount)),
    "wallet_id": _e.c.wallet_id,
    "updated_balance": func.coalesce(_BALANCE_WITHOUT_EXPIRED, _e.c.updated_balance),
    "tags": func.coalesce(_t.c.tags, cast([], _t.c.tags.type)),
    "is_overdraft": func.coalesce(_e.c.is_overdraft, literal(False)),
    "availability": case((and_(_t.c.status == PENDING, _HAS_WAIT), WAITING), else_=AVAILABLE),
    "available_at": case((_t.c.status == PENDING, _t.c.available_at)),
    "available_on": case((and_(_t.c.status == PENDING, _t.c.available_at.is_(None)), _AWAITED_EVENT)),
}
_STORED = [field.name for field in fields(TransactionRow) if field.name != "lots"]
_COLUMNS = [_COMPUTED.get(name, _t.c.get(name)).label(name) for name in _STORED]

# The transaction in the state of its creation, without changes by its capture and its revert.
_WAS_PENDING = _t.c.reserved_amount.is_not(None)
_CREATED_AMOUNT = func.coalesce(_t.c.reserved_amount, _t.c.amount)
_AS_CREATED: Mapping[str, Any] = {
    **_COMPUTED,
    "ledger_transaction_detail_index": _EARLIER_ENTRIES.scalar_subquery(),
    "amount": case((func.coalesce(_e.c.amount, 0) == 0, _CREATED_AMOUNT), else_=func.abs(_e.c.amount)),
    # A revert has its last status from the beginning: it settles at once, or is the release of a pending transaction.
    "status": case((_WAS_PENDING, PENDING), (_t.c.transaction_type == REVERT, _t.c.status), else_=SETTLED),
    "reversal_ledger_transaction_id": cast(null(), _t.c.reversal_ledger_transaction_id.type),
    "availability": case((_HAS_WAIT, WAITING), else_=AVAILABLE),
    # The moment of a mint that waits for an event became known later.
    "available_at": case((_t.c.available_on.is_(None), _t.c.available_at)),
    "available_on": _AWAITED_EVENT,
    "updated_at": _t.c.created_at,
}
_COLUMNS_AS_CREATED = [_AS_CREATED.get(name, _t.c.get(name)).label(name) for name in _STORED]

_ENTRY_OF_TRANSACTION = is_same(_e, _t, "ledger_transaction_id") & _e.c.wallet_id.is_not(None)


TRANSACTIONS = Records(_t, TransactionIds)


def find_rows_as_created(
    db: Connection, organization_id: int, ledger_transaction_ids: Collection[int]
) -> dict[int, list[TransactionRow]]:
    """The rows of transactions in the state of their creation, by transaction id, in one query.

    The rows of a transaction are followed by the rows of the transactions that were posted as a part of it, except
    expiries. After a partial capture the fiat value is that of the capture, since the original fiat value is not
    stored.
    """
    joined = _t.outerjoin(_e, _ENTRY_OF_TRANSACTION)
    ids = set(ledger_transaction_ids)
    part_of = _t.c.part_of_ledger_transaction_id
    has_requested_id = _t.c.ledger_transaction_id.in_(ids)
    # Two selects, since each condition has an index; with OR, the planner may read all transactions.
    requested, parts = (
        select(*_COLUMNS_AS_CREATED, part_of)
        .select_from(joined)
        # A pending transaction is created with entries of zero; its capture adds the entries that move points.
        .where(_t.c.organization_id == organization_id, condition, or_(~_WAS_PENDING, _e.c.amount == 0))
        for condition in (has_requested_id, and_(part_of.in_(ids), ~_t.c.is_expiry, ~has_requested_id))
    )
    rows = union_all(requested, parts).order_by("ledger_transaction_id", "ledger_transaction_detail_index")
    by_transaction: dict[int, list[TransactionRow]] = {}
    for *row, part_of_id in db.execute(rows, {"organization_id": organization_id}):
        transaction_row = TransactionRow(*row)
        transaction_id = part_of_id if part_of_id in ids else transaction_row.ledger_transaction_id
        by_transaction.setdefault(transaction_id, []).append(transaction_row)
    return by_transaction


def add_mint_of_zero(db: Connection, account: LedgerAccount, **values: Any) -> int:
    """Insert a mint of zero, which records a change of the account; returns its id."""
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


def find_rows_of_account(
    db: Connection, organization_id: int, ledger_account_id: int, filters: Mapping[str, Any], page: Page
) -> Paged[TransactionRow]:
    """A page of the rows of an account's transactions.

    `filters` has filters of `_conditions`, and may have `wallet_id`. A transaction without entries of a wallet has one
    row, without a wallet.
    """
    if "wallet_id" in filters:
        # Entries have the same account as their transaction. With a condition on that of the transactions, the planner
        # could compare each entry with all transactions of the account.
        conditions = [_e.c.ledger_account_id == ledger_account_id]
        return _rows_of_wallet(db, organization_id, filters["wallet_id"], conditions, filters, page)
    joined = _t.outerjoin(_e, _ENTRY_OF_TRANSACTION)
    is_of_account = _t.c.organization_id == organization_id, _t.c.ledger_account_id == ledger_account_id
    conditions = [*is_of_account, *_conditions(filters)]
    return _page(
        db,
        organization_id,
        joined,
        [*conditions, _SHOWN],
        page,
        _t.c.ledger_transaction_id,
        count=lambda: _count_rows_of_account(db, organization_id, conditions),
    )


def _count_rows_of_account(db: Connection, organization_id: int, conditions: list[Any]) -> RowCount:
    """Count the rows of the transactions of an account that meet conditions, up to one more than `MAX_COUNTED`.

    Unlike `count_rows`, it limits the number of transactions before it looks up their entries.
    """
    transactions = select(_t.c.ledger_transaction_id).where(*conditions).limit(MAX_COUNTED + 1).subquery()
    # The number of shown entries, as in `_SHOWN`: of the entries that are not zero; if there are none, of all entries.
    # A transaction without entries has one row.
    entries_not_zero = func.nullif(func.count().filter(_e.c.amount != 0), 0)
    row_count = (
        select(func.greatest(1, func.coalesce(entries_not_zero, func.count())))
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


def find_rows_of_wallet(
    db: Connection, organization_id: int, wallet_id: int, filters: Mapping[str, Any], page: Page
) -> Paged[TransactionRow]:
    """A page of a wallet's transaction rows on all accounts, or on the one of the filter `ledger_account_key`.

    `filters` can also contain every filter of `_conditions`.
    """
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
    """A page of a wallet's rows that meet `conditions` and the filters of `_conditions` in `filters`."""
    is_of_wallet = (_e.c.organization_id == organization_id, _e.c.wallet_id == wallet_id)
    joined = _e.join(_t, _ENTRY_OF_TRANSACTION)
    ids = _e.c.ledger_transaction_id, _t.c.ledger_transaction_id
    conditions = [*is_of_wallet, _SHOWN, *conditions, *_conditions(filters)]
    return _page(db, organization_id, joined, conditions, page, *ids)


def _conditions(filters: Mapping[str, Any]) -> list[Any]:
    """The conditions on transactions by filters, each of which may be missing.

    The filters are from_date (inclusive), to_date (exclusive), from_id and to_id (both inclusive), system_unique_key,
    and tags (a transaction must have all of them).
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
    organization_id: int,
    joined: Any,
    conditions: list[Any],
    page: Page,
    transaction_id: Any,
    twin: Any = None,
    count: Callable[[], RowCount] | None = None,
) -> Paged[TransactionRow]:
    """A page of the rows, by default newest first; the rows of one transaction are always in the order of its entries.

    `transaction_id` is the column of the first table in `joined`. `twin` is the column with the same id in the second
    table; None if some rows have no row of that table. Without `count`, the rows are counted by `count_rows`.
    """
    columns = {**_ORDER_COLUMNS, "ledgerTransactionId": transaction_id}
    sorting = sorting_of(page.order, columns, transaction_id, _e.c.entry_index, twin)
    parameters = {"organization_id": organization_id}
    return paged_columns(db, TransactionRow, _COLUMNS, joined, conditions, page, sorting, count, parameters)
