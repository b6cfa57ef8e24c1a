"""Test clocks: holding them still and taking them, and the records whose dates they must fit.

What writes in an organization with a test clock holds the clock still until its transaction ends; what moves the clock
waits for those, and is alone.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

from sqlalchemy import Connection, exists, func, select, text, union_all

from domain.organizations import Organization, OrganizationDetails
from persistence import organizations
from persistence.connections import query
from persistence.tables import metadata
from persistence.tables.events import events
from persistence.tables.ledger import ledger_transactions
from persistence.tables.members import members
from persistence.tables.organizations import organizations as table

_HOLD = "SELECT pg_try_advisory_xact_lock_shared(hashtextextended('test clock', %s))"
_TAKE = text("SELECT pg_advisory_xact_lock(hashtextextended('test clock', :organization_id))")

# The columns of an organization without a clock.
WITHOUT_CLOCK: Mapping[str, None] = dict.fromkeys(
    ("clock_now", "clock_target", "clock_started_at", "clock_steps", "clock_error")
)

# Dated by the real time, whatever the clock shows.
_REAL = frozenset({"audit_log", "audit_log_seals", "organization_users"})

FindOrganization = Callable[[Connection, int], Organization | None]


def find_held(db: Connection, organization_id: int) -> Organization | None:
    """The organization, with its clock held still if it has one; None while the clock moves, and if there is none."""
    organization = organizations.find(db, organization_id)
    return organization if organization is None or organization.clock_now is None else hold(db, organization)


def hold(db: Connection, organization: Organization) -> Organization | None:
    """Hold the organization's clock still until the transaction ends; None if it is being advanced, or failed to be."""
    if not query(db, _HOLD, (organization.organization_id,))[0][0]:
        return None
    held = organizations.find(db, organization.organization_id)
    return None if held is None or held.clock_target is not None else held


def take(db: Connection, organization_id: int) -> None:
    """Wait for all who hold the clock still, and be alone until the transaction ends."""
    db.execute(_TAKE, {"organization_id": organization_id})


def find_taken(db: Connection, organization_id: int) -> OrganizationDetails:
    """The organization as it is once its clock is taken."""
    take(db, organization_id)
    return organizations.find_details(db, organization_id)


def advancing(db: Connection) -> list[int]:
    """The organizations whose clock is being advanced."""
    statement = select(table.c.organization_id).where(table.c.clock_target.is_not(None), table.c.clock_error.is_(None))
    return list(db.execute(statement.order_by(func.random())).scalars())


def newest_record(db: Connection, organization_id: int) -> datetime | None:
    """When the newest event, ledger transaction or member was recorded; None if there is none."""
    moments = union_all(
        *(
            select(func.max(records.c.created_at).label("moment")).where(records.c.organization_id == organization_id)
            for records in (events, ledger_transactions, members)
        )
    ).subquery()
    return db.execute(select(func.max(moments.c.moment))).scalar()


def has_later_record(db: Connection, organization_id: int, moment: datetime) -> bool:
    """True if a record of the organization was created after a moment."""
    dated = [records for records in metadata.sorted_tables if {"organization_id", "created_at"} <= {*records.c.keys()}]
    return any(
        db.execute(
            select(exists().where(records.c.organization_id == organization_id, records.c.created_at > moment))
        ).scalar_one()
        for records in dated
        if records.name not in _REAL
    )
