"""Exports: the jobs, and the parts that hold their rows."""

from datetime import datetime

from sqlalchemy import Connection, text

from domain.exports import ABANDONED_AFTER, DONE, EXPIRED, QUEUED, ROWS_KEPT_FOR, RUNNING, ExportJob
from persistence import organizations
from persistence.connections import fetch_rows
from persistence.file_jobs import FileJobs
from persistence.rows import fields_of
from persistence.tables.imports import export_parts, exports

_FIELDS = ", ".join(fields_of(ExportJob))

_TO_DO = f"(status = '{QUEUED}' OR (status = '{RUNNING}' AND updated_at < %(abandoned)s))"
EXPORTS = FileJobs(
    exports,
    ExportJob,
    (export_parts,),
    _TO_DO,
    size=exports.c.bytes,
    storing_statuses=(QUEUED, RUNNING, DONE),
)
_CLAIM = f"""
UPDATE exports SET status = '{RUNNING}', attempt = attempt + 1, parts = 0, rows = 0, bytes = 0, last_id = NULL,
    crashes = crashes + CASE status WHEN '{RUNNING}' THEN 1 ELSE 0 END,
    started_at = %(started_at)s, updated_at = %(now)s
WHERE organization_id = %(organization_id)s AND export_id IN (
    SELECT export_id FROM exports
    WHERE organization_id = %(organization_id)s AND export_id = %(export_id)s AND {_TO_DO} FOR UPDATE SKIP LOCKED
)
RETURNING {_FIELDS}
"""

# After a member was erased: complete exports expire, running exports begin again without the member's rows. Queued ones
# stay queued, but are locked, so that no worker begins them before the erasing is committed.
_FORGET = (
    f"UPDATE exports SET status = CASE status WHEN '{DONE}' THEN '{EXPIRED}' ELSE '{QUEUED}' END, updated_at = :now"
    f" WHERE organization_id = :organization_id AND status IN ('{DONE}', '{QUEUED}', '{RUNNING}')",
    "DELETE FROM export_parts WHERE organization_id = :organization_id",
)

_OLD = f"""
SELECT organization_id, array_agg(export_id) FROM (
    SELECT organization_id, export_id FROM exports WHERE status = '{DONE}' AND finished_at < %s
    ORDER BY finished_at LIMIT %s
) x GROUP BY 1 ORDER BY 1
"""
_EXPIRE = f"""
UPDATE exports SET status = '{EXPIRED}', updated_at = %(now)s
WHERE organization_id = %(organization_id)s AND export_id = ANY(%(export_ids)s) AND status = '{DONE}'
"""


def claim(db: Connection, organization_id: int, export_id: int, now: datetime) -> ExportJob | None:
    """Claim a waiting export, to be written from its beginning; None if another worker has claimed it, or it is locked.

    `now` is the real time, which shows whether an export is abandoned. `started_at` is the organization's time, so that
    callers can compare it with the dates of records.
    """
    values = {
        "organization_id": organization_id,
        "export_id": export_id,
        "now": now,
        "started_at": organizations.find_time(db, organization_id),
        "abandoned": now - ABANDONED_AFTER,
    }
    for row in fetch_rows(db, _CLAIM, values):
        job = ExportJob(*row)
        if EXPORTS.remove_content(db, job):
            return job
        # The next claims remove the other parts of the abandoned attempt.
        EXPORTS.store(db, job, {"status": QUEUED}, now)
    return None


def add_part(db: Connection, job: ExportJob, content: str, rows: int, last_id: int, now: datetime) -> bool:
    """Add a part with this number of rows.

    Returns False, and adds nothing, if the export is not running any more or another worker has claimed it again.
    """
    current = EXPORTS.lock(db, job)
    if (current.status, current.attempt) != (RUNNING, job.attempt):
        return False
    number = current.parts + 1
    db.execute(
        export_parts.insert().values(
            organization_id=job.organization_id, export_id=job.export_id, part_number=number, content=content
        )
    )
    size = current.bytes + len(content.encode())
    EXPORTS.store(db, job, {"parts": number, "rows": current.rows + rows, "bytes": size, "last_id": last_id}, now)
    return True


def forget_rows(db: Connection, organization_id: int, now: datetime) -> None:
    """Remove the rows of all exports of an organization; complete exports expire, running exports begin again.

    Until the transaction ends, no export of the organization is created or begins.
    """
    EXPORTS.lock_creation(db, organization_id)
    for statement in _FORGET:
        db.execute(text(statement), {"organization_id": organization_id, "now": now})


def expire(db: Connection, now: datetime, limit: int) -> int:
    """Let at most `limit` exports expire whose rows were kept long enough; returns the number of these exports."""
    expired_count = 0
    for organization_id, export_ids in fetch_rows(db, _OLD, (now - ROWS_KEPT_FOR, limit)):
        values = {"organization_id": organization_id, "export_ids": export_ids, "now": now}
        expired_count += db.exec_driver_sql(_EXPIRE, values).rowcount
    return expired_count
