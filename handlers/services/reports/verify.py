"""Checks that the figures of reports equal a count of all records."""

from __future__ import annotations

from sqlalchemy import Connection

from persistence import ledger_checks
from persistence.reports import checks

_MOST_OF_ONE_KIND = 50


def verify_reports(db: Connection, organization_id: int | None) -> list[str]:
    """The differences for one organization, or for all; empty if there are none. Changes nothing."""
    findings: list[str] = []
    ledger_checks.plan_for_many(db)
    for check in checks.CHECKS:
        found = ledger_checks.broken(db, check, organization_id, _MOST_OF_ONE_KIND + 1)
        findings += [f"organization {owner}, {words}" for owner, words in found[:_MOST_OF_ONE_KIND]]
        if len(found) > _MOST_OF_ONE_KIND:
            findings.append(f"and more of the last kind: the first {_MOST_OF_ONE_KIND} are named")
    return findings
