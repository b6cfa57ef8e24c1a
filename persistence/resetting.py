"""Removing all records of a test organization; the database refuses it for others."""

from sqlalchemy import Connection, delete, select, text, update

from domain.organizations import Organization
from persistence import test_clocks
from persistence.rows import columns_of, record
from persistence.tables import metadata
from persistence.tables.organizations import organizations

# The organization with its users stays; entries of the audit log stay as a chain, without their contents.
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
    """Lock the organization against everything that adds records to it or moves its clock; return it."""
    test_clocks.take(db, organization_id)
    statement = select(*columns_of(organizations, Organization)).where(
        organizations.c.organization_id == organization_id
    )
    return record(Organization, db.execute(statement.with_for_update()).one_or_none())


def remove_records(db: Connection, organization_id: int) -> int:
    """Remove all records but those of users, with the test clock, and erase the contents of the audit log.

    Returns how many rows there were.
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
