"""Emptying a test organization."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from domain.organizations import TEST
from handlers.services.organizations.create import add_default_records
from persistence import audit_log, organizations, resetting
from persistence.audit_log import NewEntry, Origin


class NotATestOrganization(ValueError):
    """The organization holds records that count."""


def reset_organization(db: Connection, organization_id: int, now: datetime) -> int:
    """Remove all records of a test organization but its users, and begin anew; returns how many rows there were.

    Ledger, account, program and tier are then as those of a new organization, with other ids. Raises
    NotATestOrganization.
    """
    organization = resetting.lock(db, organization_id)
    if organization is None or organization.environment != TEST:
        raise NotATestOrganization(f"organization {organization_id} is no test organization")
    removed = resetting.remove_records(db, organization_id)
    add_default_records(db, organization_id, now)
    organizations.raise_configuration_version(db, organization_id)
    entry = NewEntry("organization", str(organization_id), "{}")
    audit_log.add_entries(db, organization_id, now, [(Origin.by_operator("resetOrganization"), entry)])
    return removed
