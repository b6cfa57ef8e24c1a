"""Exports: the jobs, and the parts that hold their rows."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, select, text

from domain.exports import ABANDONED, DONE, EXPIRED, KEPT, QUEUED, RUNNING, ExportJob
from persistence.connections import query
from persistence.paging import Page, Paged, paged
from persistence.rows import add, change, columns_of, fields_of, record
from persistence.tables.exports import export_parts, exports

ORDER_COLUMNS = {
    "exportId": exports.c.export_id,
    "status": exports.c.status,
    "createdAt": exports.c.created_at,
    "updatedAt": exports.c.updated_at,
}

_COLUMNS = columns_of(exports, ExportJob)
_FIELDS = ", ".join(fields_of(ExportJob))

_TO_DO = f"(status = '{QUEUED}' OR (status = '{RUNNING}' AND updated_at < %(abandoned)s))"
_WAITING = f"SELECT organization_id, export_id FROM exports WHERE {_TO_DO} ORDER BY updated_at, export_id"
_CLAIM = f"""
UPDATE exports SET status = '{RUNNING}', attempt = attempt + 1, parts = 0, rows = 0, bytes = 0, last_id = NULL,
    started_at = %(now)s, updated_at = %(now)s
WHERE organization_id = %(organization_id)s AND export_id = %(export_id)s AND {_TO_DO}
RETURNING {_FIELDS}
"""

_PART = "SELECT content FROM export_parts WHERE organization_id = %s AND export_id = %s AND part_number = %s"

# Rows of people who were erased: complete exports expire, others begin again without them.
_FORGET = (
    f"UPDATE exports SET status = CASE status WHEN '{DONE}' THEN '{EXPIRED}' ELSE '{QUEUED}' END, updated_at = :now"
    f" WHERE organization_id = :organization_id AND status IN ('{DONE}', '{RUNNING}')",
    "DELETE FROM export_parts WHERE organization_id = :organization_id",
)

_OLD = f"""
SELECT organization_id, array_agg(export_id) FROM (
    SELECT organization_id, export_id FROM exports WHERE status = '{DONE}' AND finished_at < %s
    ORDER BY finished_at LIMIT %s
) x GROUP BY 1 ORDER BY 1
"""
_EXPIRE = f"""
WITH old AS (
    UPDATE exports SET status = '{EXPIRED}', updated_at = %(now)s
    WHERE organization_id = %(organization_id)s AND export_id = ANY(%(export_ids)s) AND status = '{DONE}'
    RETURNING export_id
), removed AS (
    DELETE FROM export_parts
    WHERE organization_id = %(organization_id)s AND export_id = ANY(ARRAY(SELECT export_id FROM old))
)
SELECT count(*) FROM old
"""


def find(db: Connection, organization_id: int, export_id: int) -> ExportJob | None:
    """The export with this id."""
    return record(ExportJob, db.execute(_one(organization_id, export_id)).one_or_none())


def lock(db: Connection, job: ExportJob) -> ExportJob:
    """The export as it is now, locked."""
    statement = _one(job.organization_id, job.export_id).with_for_update(key_share=True)
    return ExportJob(*db.execute(statement).one())


def find_page(
    db: Connection, organization_id: int, page: Page, *, kind: str | None = None, status: str | None = None
) -> Paged[ExportJob]:
    """A page of the exports of a kind and in a status, as far as they are given."""
    conditions = [exports.c.organization_id == organization_id]
    if kind is not None:
        conditions.append(exports.c.kind == kind)
    if status is not None:
        conditions.append(exports.c.status == status)
    return paged(db, ExportJob, exports, conditions, page, exports.c.export_id, ORDER_COLUMNS)


def add_export(db: Connection, organization_id: int, **values: Any) -> ExportJob:
    """Insert an export, which waits for a worker."""
    return add(db, exports, ExportJob, {"organization_id": organization_id, "status": QUEUED, **values})


def change_export(db: Connection, job: ExportJob, **values: Any) -> ExportJob:
    """Change an export."""
    address = {"organization_id": job.organization_id, "export_id": job.export_id}
    return change(db, exports, ExportJob, address, values)


def find_waiting(db: Connection, now: datetime) -> list[tuple[int, int]]:
    """Return the organization and id of the exports that wait, or whose worker is dead; the oldest first."""
    return [(row[0], row[1]) for row in query(db, _WAITING, {"abandoned": now - ABANDONED})]


def claim(db: Connection, organization_id: int, export_id: int, now: datetime) -> ExportJob | None:
    """Claim a waiting export, to be written from its beginning; None if another worker has claimed it meanwhile."""
    values = {"organization_id": organization_id, "export_id": export_id, "now": now, "abandoned": now - ABANDONED}
    for row in query(db, _CLAIM, values):
        job = ExportJob(*row)
        remove_parts(db, job)
        return job
    return None


def add_part(db: Connection, job: ExportJob, content: str, rows: int, last_id: int, now: datetime) -> bool:
    """Add a part with so many rows; False, and nothing is added, if this attempt is not to go on."""
    current = lock(db, job)
    if (current.status, current.attempt) != (RUNNING, job.attempt):
        return False
    number = current.parts + 1
    db.execute(
        export_parts.insert().values(
            organization_id=job.organization_id, export_id=job.export_id, part_number=number, content=content
        )
    )
    size = current.bytes + len(content.encode())
    change_export(db, job, parts=number, rows=current.rows + rows, bytes=size, last_id=last_id, updated_at=now)
    return True


def read_part(db: Connection, job: ExportJob, part_number: int) -> str | None:
    """The lines of a part; None if there is none with this number."""
    rows = query(db, _PART, (job.organization_id, job.export_id, part_number))
    return rows[0][0] if rows else None


def remove_parts(db: Connection, job: ExportJob) -> None:
    """Remove the rows of an export."""
    mine = export_parts.c.organization_id == job.organization_id, export_parts.c.export_id == job.export_id
    db.execute(delete(export_parts).where(*mine))


def forget_rows(db: Connection, organization_id: int, now: datetime) -> None:
    """Remove the rows of all exports of an organization; those that are not complete begin again."""
    for statement in _FORGET:
        db.execute(text(statement), {"organization_id": organization_id, "now": now})


def expire(db: Connection, now: datetime, most: int) -> int:
    """Remove the rows of exports, at most so many, that were kept long enough; returns how many there were."""
    expired = 0
    for organization_id, export_ids in query(db, _OLD, (now - KEPT, most)):
        values = {"organization_id": organization_id, "export_ids": export_ids, "now": now}
        [(count,)] = query(db, _EXPIRE, values)
        expired += count
    return expired


def end(db: Connection, job: ExportJob, status: str, now: datetime) -> ExportJob:
    """End a locked export without rows: one that was cancelled, or has failed."""
    remove_parts(db, job)
    return change_export(db, job, status=status, updated_at=now, finished_at=now)


def _one(organization_id: int, export_id: int) -> Any:
    return select(*_COLUMNS).where(exports.c.organization_id == organization_id, exports.c.export_id == export_id)
