"""Removing all records of a test organization; the database refuses it for live organizations."""

from sqlalchemy import Connection, delete, select, text, update

from domain.organizations import Organization
from persistence import test_clocks
from persistence.rows import columns_of, record
from persistence.tables import metadata
from persistence.tables.organizations import organizations

# The tables of which no rows are removed: the organization and its users stay, and the audit log stays without its
# contents, so that its chain of seals is complete.
_KEPT = frozenset(
    {
        "organizations",
        "organization_users",
        "permission_groups",
        "user_permission_groups",
        "audit_log",
        "unsealed_audit_log",
        "audit_log_seals",
    }
)

_ERASE_ENTRIES = """
UPDATE audit_log SET changes = NULL, salt = NULL, reason = NULL
WHERE organization_id = :organization_id AND salt IS NOT NULL
"""


def lock(db: Connection, organization_id: int) -> Organization | None:
    """Lock the organization against all calls that add records to it or move its clock; return it.

    None if it does not exist.
    """
    test_clocks.take(db, organization_id)
    statement = select(*columns_of(organizations, Organization)).where(
        organizations.c.organization_id == organization_id
    )
    return record(Organization, db.execute(statement.with_for_update()).one_or_none())


def remove_records(db: Connection, organization_id: int) -> int:
    """Remove the test clock and all records except users and permission groups; empty the entries of the audit log.

    Returns the number of removed rows.
    """
    db.execute(
        update(organizations)
        .where(organizations.c.organization_id == organization_id)
        .values(default_loyalty_program_id=None, default_ledger_id=None, **test_clocks.WITHOUT_CLOCK)
    )
    count = 0
    for table in reversed(metadata.sorted_tables):
        if "organization_id" in table.c and table.name not in _KEPT:
            count += db.execute(delete(table).where(table.c.organization_id == organization_id)).rowcount
    db.execute(text(_ERASE_ENTRIES), {"organization_id": organization_id})
    return count
