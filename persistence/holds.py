"""Records of transactions that hold points for a time, and the states of these transactions."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection, exists, func, select

from domain.ledger.records import PENDING, SETTLED, HoldState, LedgerAccount
from persistence.connections import fetch_rows
from persistence.prepared_statements import Prepared
from persistence.records import Records
from persistence.tables.ledger import ledger_transactions

Kind = TypeVar("Kind")

_t, _revert = ledger_transactions, ledger_transactions.alias("revert")

_TIMED_HOLDS = Prepared(f"""
SELECT ledger_transaction_id, ledger_account_id FROM ledger_transactions
WHERE organization_id = %s AND from_wallet_id = ANY(%s::bigint[]) AND status = {PENDING} AND held_until > %s
""")


def find_timed_holds(
    db: Connection, organization_id: int, wallet_ids: Collection[int], now: datetime
) -> dict[int, int]:
    """The transactions that hold points of these wallets at `now` until a set time: account id by transaction id."""
    rows = fetch_rows(db, _TIMED_HOLDS, (organization_id, list(wallet_ids), now))
    return dict(rows)


def find_hold_states(
    db: Connection, organization_id: int, transaction_ids: Collection[int], until: int | None = None
) -> Mapping[int, HoldState]:
    """The states of transactions that hold points, by id.

    With `until`, only reverts up to this transaction id count for the returned amounts.
    """
    is_early_enough = [] if until is None else [_revert.c.ledger_transaction_id <= until]
    reverts = (
        select(
            func.coalesce(func.sum(_revert.c.amount), 0).label("amount"),
            func.coalesce(func.sum(_revert.c.fiat_value), 0).label("fiat_value"),
            func.max(_revert.c.created_at).label("at"),
        )
        .where(
            _revert.c.organization_id == organization_id,
            _revert.c.reverted_ledger_transaction_id == _t.c.ledger_transaction_id,
            _revert.c.status == SETTLED,
            *is_early_enough,
        )
        .lateral("reverts")
    )
    statement = (
        select(
            _t.c.ledger_transaction_id,
            _t.c.status,
            # A capture of nothing is a release.
            _t.c.captured_at.is_not(None)
            & ((_t.c.status == SETTLED) | _t.c.reversal_ledger_transaction_id.is_not(None)),
            _t.c.updated_at,
            _t.c.amount,
            _t.c.fiat_value,
            reverts.c.amount,
            reverts.c.fiat_value,
            reverts.c.at,
        )
        .select_from(_t)
        .join(reverts, onclause=_t.c.organization_id == organization_id)
        .where(_t.c.organization_id == organization_id, _t.c.ledger_transaction_id.in_(transaction_ids))
    )
    return {transaction_id: HoldState(*state) for transaction_id, *state in db.execute(statement)}


def find_holding_records(
    db: Connection,
    records: Records[Kind],
    organization_id: int,
    member_id: int,
    ledger_account_id: int,
    now: datetime,
) -> list[Kind]:
    """The records that hold points of the member on the account at `now`."""
    columns = records.table.c
    of_member = columns.member_id == member_id, columns.ledger_account_id == ledger_account_id
    return records.find_where(db, organization_id, *of_member, *_holds_points(organization_id, records, now))


def has_holding_records(db: Connection, records: Records[Kind], account: LedgerAccount, now: datetime) -> bool:
    """True if one of the records holds points on the account at `now`."""
    on_account = records.table.c.ledger_account_id == account.ledger_account_id
    holds_points = _holds_points(account.organization_id, records, now)
    return bool(records.find_where(db, account.organization_id, on_account, *holds_points, limit=1))


def _holds_points(organization_id: int, records: Records[Kind], now: datetime) -> tuple[object, ...]:
    """The conditions that a record holds points: its time is not over, and its transaction is still pending."""
    pending = select(_t.c.ledger_transaction_id).where(
        _t.c.organization_id == organization_id,
        _t.c.ledger_transaction_id == records.table.c.ledger_transaction_id,
        _t.c.status == PENDING,
    )
    return records.table.c.held_until > now, exists(pending)
