"""Checks of stored data: every invariant of the ledger, and that nobody changed the audit log."""

from __future__ import annotations

from sqlalchemy import Connection

from persistence import audit_checks, ledger_checks

_MOST_OF_ONE_KIND = 50


def verify(db: Connection, organization_id: int | None) -> list[str]:
    """The faults in ledger and audit log of one organization, or of all; empty if there are none. Changes nothing."""
    findings: list[str] = []
    ledger_checks.plan_for_many(db)
    for check in (*ledger_checks.CHECKS, *audit_checks.CHECKS):
        found = ledger_checks.broken(db, check, organization_id, _MOST_OF_ONE_KIND + 1)
        findings += [f"organization {owner}, {words}" for owner, words in found[:_MOST_OF_ONE_KIND]]
        if len(found) > _MOST_OF_ONE_KIND:
            findings.append(f"and more of the last kind: the first {_MOST_OF_ONE_KIND} are named")
    return findings
