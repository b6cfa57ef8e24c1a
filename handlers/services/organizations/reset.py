"""Emptying a test organization."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from domain.organizations import TEST
from handlers.services.organizations.create import DefaultRecords, add_default_records
from persistence import audit_log, organizations, resetting
from persistence.audit_log import NewEntry, Origin


class NotATestOrganization(ValueError):
    """The organization holds records that count."""


@dataclass(frozen=True, slots=True)
class ResetOrganization:
    """The number of rows that were removed, and the records that the organization has now."""

    removed: int
    records: DefaultRecords


def reset_organization(db: Connection, organization_id: int, now: datetime) -> ResetOrganization:
    """Remove all records of a test organization but its users, and add those of a new one, with other ids.

    Raises NotATestOrganization.
    """
    organization = resetting.lock(db, organization_id)
    if organization is None or organization.environment != TEST:
        raise NotATestOrganization(f"organization {organization_id} is no test organization")
    removed = resetting.remove_records(db, organization_id)
    records = add_default_records(db, organization_id, now)
    organizations.raise_configuration_version(db, organization_id)
    entry = NewEntry("organization", str(organization_id), "{}")
    audit_log.add_entries(db, organization_id, now, [(Origin.by_operator("resetOrganization"), entry)])
    return ResetOrganization(removed, records)
