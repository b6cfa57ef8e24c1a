"""Checks of stored data: the ledger, what members have, the chain of the audit log, and figures of reports."""

from collections.abc import Iterable

from sqlalchemy import Connection

from persistence import audit_checks, ledger_checks, record_checks
from persistence.reports import checks as report_checks

# The checks of the ledger, of what members have, and of the audit log.
CHECKS = (*ledger_checks.CHECKS, *record_checks.CHECKS, *audit_checks.CHECKS)
_MAX_OF_ONE_KIND = 50


def verify(db: Connection, organization_id: int) -> list[str]:
    """The faults in the records and the audit log of an organization; empty if there are none. Changes nothing."""
    return find_faults(db, organization_id, CHECKS)


def verify_reports(db: Connection, organization_id: int) -> list[str]:
    """The figures of reports that differ from a count of all records; empty if there are none. Changes nothing."""
    return find_faults(db, organization_id, report_checks.CHECKS)


def find_faults(db: Connection, organization_id: int, checks: Iterable[str]) -> list[str]:
    """The faults that checks find in the data of an organization, at most 50 of each check."""
    findings: list[str] = []
    ledger_checks.plan_for_many(db)
    for check in checks:
        faults = ledger_checks.find_violations(db, check, organization_id, _MAX_OF_ONE_KIND + 1)
        findings += [f"organization {organization_id}, {fault}" for fault in faults[:_MAX_OF_ONE_KIND]]
        if len(faults) > _MAX_OF_ONE_KIND:
            findings.append(f"there are more faults of the last kind; only the first {_MAX_OF_ONE_KIND} are listed")
    return findings
