"""Test clocks: locks of them, and the records whose dates they must fit.

To hold a clock is a shared lock, to take it an exclusive lock. A transaction that writes in a test organization holds
its clock, even if there is none yet, since another transaction may begin one. A transaction that begins, moves or
removes the clock takes it.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

from sqlalchemy import Connection, func, or_, select, union_all

from domain.organizations import TEST, Organization, OrganizationDetails
from persistence import organizations
from persistence.connections import fetch_rows
from persistence.filters import has_row
from persistence.tables import metadata
from persistence.tables.events import events
from persistence.tables.ledger import ledger_transactions
from persistence.tables.members import members
from persistence.tables.organizations import organizations as table

_LOCK = "hashtextextended('test clock', %s)"
_HOLD = f"SELECT pg_advisory_xact_lock_shared({_LOCK})"
_TRY_TO_HOLD = f"SELECT pg_try_advisory_xact_lock_shared({_LOCK})"
_TAKE = f"SELECT pg_advisory_xact_lock({_LOCK})"
_TRY_TO_TAKE = f"SELECT pg_try_advisory_xact_lock({_LOCK})"

# The columns of an organization without a clock.
WITHOUT_CLOCK: Mapping[str, None] = dict.fromkeys(
    ("clock_now", "clock_target", "clock_started_at", "clock_steps", "clock_error")
)

# The tables whose rows stay when a test organization is reset: their dates are the real time, regardless of the clock.
_LASTING = frozenset({"organizations", "organization_users", "permission_groups", "audit_log", "audit_log_seals"})

FindOrganization = Callable[[Connection, int], Organization | None]


def find_and_hold_clock(db: Connection, organization_id: int) -> Organization | None:
    """Hold the organization's clock; return the organization.

    None if another transaction has taken the clock, if the clock is being advanced, or if the organization does not
    exist. A live organization has no clock, and is always returned.
    """
    organization = organizations.find(db, organization_id)
    if organization is None or organization.environment != TEST:
        return organization
    return _unless_advancing(db, organization_id) if _try(db, _TRY_TO_HOLD, organization_id) else None


def find_and_hold_advancing_clock(db: Connection, organization_id: int) -> Organization | None:
    """Hold the clock of an organization that is being advanced, and return the organization.

    The clock does not move until the transaction ends. None if another transaction has taken the clock, or if the clock
    is not being advanced.
    """
    if not _try(db, _TRY_TO_HOLD, organization_id):
        return None
    organization = organizations.find(db, organization_id)
    return None if organization is None or organization.clock_target is None else organization


def hold(db: Connection, organization_id: int) -> Organization | None:
    """Hold the organization's clock until the transaction ends, and return the organization.

    Waits for calls that begin or remove the clock. None if the clock is being advanced, or if advancing it has failed.
    """
    if not _try(db, _TRY_TO_HOLD, organization_id):
        if _unless_advancing(db, organization_id) is None:
            return None
        fetch_rows(db, _HOLD, (organization_id,))
    return _unless_advancing(db, organization_id)


def _unless_advancing(db: Connection, organization_id: int) -> Organization | None:
    """The organization; None if its clock has a target, to which it is being advanced."""
    organization = organizations.find(db, organization_id)
    return None if organization is None or organization.clock_target is not None else organization


def _try(db: Connection, statement: str, organization_id: int) -> bool:
    """Execute a statement that acquires a lock without waiting; True if it did."""
    [(is_locked,)] = fetch_rows(db, statement, (organization_id,))
    return bool(is_locked)


def take(db: Connection, organization_id: int) -> None:
    """Take the clock until the transaction ends; waits for all transactions that hold it."""
    fetch_rows(db, _TAKE, (organization_id,))


def find_and_take_clock(db: Connection, organization_id: int) -> OrganizationDetails:
    """Take the organization's clock; return the organization, read after that."""
    take(db, organization_id)
    return organizations.find_details(db, organization_id)


def find_and_try_to_take_clock(db: Connection, organization_id: int) -> OrganizationDetails | None:
    """Take the organization's clock without waiting, and return the organization.

    None if another transaction holds the clock or has taken it.
    """
    return organizations.find_details(db, organization_id) if _try(db, _TRY_TO_TAKE, organization_id) else None


def find_advancing_ids(db: Connection) -> list[int]:
    """The ids of the organizations whose clocks are being advanced and have not failed, in random order."""
    statement = select(table.c.organization_id).where(table.c.clock_target.is_not(None), table.c.clock_error.is_(None))
    return list(db.execute(statement.order_by(func.random())).scalars())


def find_time_of_newest_record(db: Connection, organization_id: int) -> datetime | None:
    """The time at which the newest event, ledger transaction or member was created; None if there is none."""
    newest_of_each = [
        select(func.max(records.c.created_at).label("moment")).where(records.c.organization_id == organization_id)
        for records in (events, ledger_transactions, members)
    ]
    moments = union_all(*newest_of_each).subquery()
    return db.execute(select(func.max(moments.c.moment))).scalar()


def has_later_record(db: Connection, organization_id: int, moment: datetime) -> bool:
    """True if a record of the organization was created or changed after a moment."""
    for records in metadata.sorted_tables:
        dates = [records.c[name] for name in ("created_at", "updated_at") if name in records.c]
        if dates and "organization_id" in records.c and records.name not in _LASTING:
            is_later = or_(*(date > moment for date in dates))
            if has_row(db, records.c.organization_id == organization_id, is_later):
                return True
    return False
