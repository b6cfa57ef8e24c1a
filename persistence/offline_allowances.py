"""Offline allowances, and the transactions that hold their points."""

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy import Connection, and_, exists, select

from domain.ledger.records import PENDING, SETTLED, LedgerAccount
from domain.offline_allowances import HoldState, OfflineAllowance
from persistence.records import Records
from persistence.tables.ledger import ledger_transactions
from persistence.tables.offline_allowances import offline_allowances

ALLOWANCES = Records(offline_allowances, OfflineAllowance)

_t, _a = ledger_transactions, offline_allowances
_IS_HELD = exists(
    select(_t.c.ledger_transaction_id).where(
        and_(
            _t.c.organization_id == _a.c.organization_id,
            _t.c.ledger_transaction_id == _a.c.ledger_transaction_id,
            _t.c.status == PENDING,
        )
    )
)


def find_hold_states(db: Connection, organization_id: int, transaction_ids: Collection[int]) -> Mapping[int, HoldState]:
    """The states of the transactions that hold the points of allowances, by id."""
    statement = select(
        _t.c.ledger_transaction_id,
        _t.c.status,
        # A capture of nothing is a release.
        _t.c.captured_at.is_not(None) & ((_t.c.status == SETTLED) | _t.c.reversal_ledger_transaction_id.is_not(None)),
        _t.c.updated_at,
    ).where(_t.c.organization_id == organization_id, _t.c.ledger_transaction_id.in_(transaction_ids))
    return {row[0]: HoldState(*row[1:]) for row in db.execute(statement)}


def find_open(
    db: Connection,
    organization_id: int,
    member_ids: Collection[int],
    now: datetime,
    ledger_account_id: int | None = None,
) -> list[OfflineAllowance]:
    """The open allowances of members, on one account or on all."""
    on_account = [] if ledger_account_id is None else [_a.c.ledger_account_id == ledger_account_id]
    return ALLOWANCES.find_where(
        db, organization_id, _a.c.member_id.in_(member_ids), _a.c.held_until > now, _IS_HELD, *on_account
    )


def has_open(db: Connection, account: LedgerAccount, now: datetime) -> bool:
    """True if members have open allowances on the account."""
    on_account = _a.c.ledger_account_id == account.ledger_account_id
    return bool(
        ALLOWANCES.find_where(db, account.organization_id, on_account, _a.c.held_until > now, _IS_HELD, limit=1)
    )
