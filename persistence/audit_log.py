"""The audit log: who did what to which record, and why."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert

from persistence.tables.members import audit_log


def add_entry(
    db: Connection,
    organization_id: int,
    *,
    at: datetime,
    caller: str,
    action: str,
    subject_type: str,
    subject_id: str,
    reason: str | None,
    changes: Mapping[str, Any],
) -> None:
    """Write one entry; `action` is the operationId, `changes` what it changed from and to."""
    db.execute(
        insert(audit_log).values(
            organization_id=organization_id,
            created_at=at,
            caller=caller,
            action=action,
            subject_type=subject_type,
            subject_id=subject_id,
            reason=reason,
            changes=changes,
        )
    )
