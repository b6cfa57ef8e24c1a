"""Checks that the figures of reports equal a count of all records."""

from sqlalchemy import Connection

from handlers.services.verify import find_broken
from persistence.reports import checks


def verify_reports(db: Connection, organization_id: int) -> list[str]:
    """The differences for an organization; empty if there are none. Changes nothing."""
    return find_broken(db, organization_id, checks.CHECKS)
