"""Imports: the jobs, the parts of their files, and the rows that failed."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import psycopg2
from sqlalchemy import Connection, select, update

from domain.imports.records import (
    FAILED,
    QUEUED,
    RUNNING,
    UNFINISHED,
    UPLOADING,
    FailedRow,
    ImportEnded,
    ImportJob,
    ImportPart,
)
from domain.members import Member
from persistence.connections import defer, fetch_rows
from persistence.file_jobs import FileJobs
from persistence.filters import is_same
from persistence.rows import add, add_all, as_rows, columns_of, fields_of
from persistence.tables.imports import failed_import_rows, import_blocks, import_parts, imports

BLOCK_BYTES = 1024 * 1024

_TO_DO = f"status IN ('{QUEUED}', '{RUNNING}')"
# Imports of an organization wait while its test clock is being advanced.
_WAITING = f"""{_TO_DO} AND NOT EXISTS (
    SELECT FROM organizations o WHERE o.organization_id = imports.organization_id AND o.clock_target IS NOT NULL)"""
IMPORTS = FileJobs(
    imports,
    ImportJob,
    (import_blocks, import_parts),
    _WAITING,
    size=imports.c.bytes_total,
    storing_statuses=UNFINISHED,
)

_ADD_BLOCK = """
INSERT INTO import_blocks (organization_id, import_id, part_number, block_number, content)
VALUES (%s, %s, %s, %s, %s) RETURNING block_number
"""

# An advisory lock instead of a lock of the row, so that a request can cancel an import that a worker has claimed.
_CLAIM = "SELECT pg_try_advisory_xact_lock(hashtextextended('import ' || %s, %s))"
_JOB = f"""
SELECT {", ".join(fields_of(ImportJob))} FROM imports WHERE organization_id = %s AND import_id = %s AND {_TO_DO}
"""
_RECORD_BEGIN = """
UPDATE imports SET crashes = crashes + 1, careful_until = CASE crashes WHEN 0 THEN rows_read + %s ELSE careful_until END
WHERE organization_id = %s AND import_id = %s
"""
_FORGIVE_BEGIN = """
UPDATE imports SET crashes = greatest(crashes - 1, 0) WHERE organization_id = %s AND import_id = %s
"""


def fail_abandoned(db: Connection, organization_id: int, before: datetime, now: datetime, error: str) -> int:
    """Mark as failed the imports that are still being uploaded and got no part since `before`; return their number."""
    statement = (
        update(imports)
        .where(
            imports.c.organization_id == organization_id,
            imports.c.status == UPLOADING,
            imports.c.updated_at < before,
        )
        .values(status=FAILED, error=error, updated_at=now, finished_at=now)
    )
    return db.execute(statement).rowcount


def claim(db: Connection, organization_id: int, import_id: int) -> ImportJob | None:
    """Claim the import until the database transaction ends.

    Returns None if another worker has claimed it, or if it has ended.
    """
    [(is_claimed,)] = fetch_rows(db, _CLAIM, (import_id, organization_id))
    rows = fetch_rows(db, _JOB, (organization_id, import_id)) if is_claimed else []
    return ImportJob(*rows[0]) if rows else None


def record_begin(db: Connection, job: ImportJob, rows: int) -> None:
    """Record that a worker begins a step of this number of rows, by a deferred statement.

    It counts the step as a crash, until `forgive_begin` or the end of the step: if the worker dies after the COMMIT of
    this record, the next worker sees the crash. Without earlier crashes, `careful_until` becomes the end of the step.
    """
    defer(db, _RECORD_BEGIN, (rows, job.organization_id, job.import_id))


def forgive_begin(db: Connection, job: ImportJob) -> None:
    """Undo `record_begin`, because the worker has not finished the step, but not crashed; a deferred statement."""
    defer(db, _FORGIVE_BEGIN, (job.organization_id, job.import_id))


def advance(db: Connection, job: ImportJob, **values: Any) -> None:
    """Store values of a claimed import; raises ImportEnded if it has ended, or another worker has advanced it."""
    statement = update(imports).where(
        is_same(imports, job, "import_id"),
        imports.c.status.in_((QUEUED, RUNNING)),
        imports.c.next_byte == job.next_byte,
    )
    if not db.execute(statement.values(**values)).rowcount:
        raise ImportEnded


def find_parts(db: Connection, job: ImportJob) -> list[ImportPart]:
    """The stored parts of the file, in their order."""
    statement = select(*columns_of(import_parts, ImportPart)).where(is_same(import_parts, job, "import_id"))
    return [ImportPart(*row) for row in db.execute(statement.order_by(import_parts.c.part_number)).all()]


def add_part(db: Connection, job: ImportJob, part_number: int, blocks: Iterable[bytes], **values: Any) -> ImportPart:
    """Store a part of the file block by block; it replaces the part with this number, if any."""
    address = {"organization_id": job.organization_id, "import_id": job.import_id, "part_number": part_number}
    while not IMPORTS.remove_content_at(db, address):
        pass
    part = add(db, import_parts, ImportPart, {**address, **values})
    for number, block in enumerate(blocks):
        fetch_rows(db, _ADD_BLOCK, (*address.values(), number, psycopg2.Binary(block)))
    return part


def read_block(db: Connection, job: ImportJob, part_number: int, block_number: int) -> bytes:
    """One block of the file; all but the last block of a part have `BLOCK_BYTES`.

    Raises ImportEnded if the block does not exist any more.
    """
    block: bytes | None = IMPORTS.read_content(db, job, part_number=part_number, block_number=block_number)
    if block is None:
        raise ImportEnded
    return block


def add_failed_rows(db: Connection, job: ImportJob, rows: Sequence[FailedRow]) -> None:
    """Store rows that failed, with one statement."""
    import_ids = {"organization_id": job.organization_id, "import_id": job.import_id}
    add_all(db, failed_import_rows, as_rows(rows, fields_of(FailedRow), **import_ids))


def rename_member_in_failed_rows(db: Connection, before: Member, loyalty_member_id: str) -> None:
    """Give the failed rows about a member its new loyaltyMemberId, so that erasing the member removes them."""
    table = failed_import_rows
    rows = is_same(table, before, "loyalty_member_id")
    db.execute(update(table).where(rows).values(loyalty_member_id=loyalty_member_id))


def find_failed_rows(db: Connection, job: ImportJob, after_line: int, limit: int) -> list[FailedRow]:
    """The rows that failed after a line of the file, in their order; at most `limit` rows."""
    table = failed_import_rows
    statement = (
        select(*(table.c[name] for name in fields_of(FailedRow)))
        .where(is_same(table, job, "import_id"), table.c.line > after_line)
        .order_by(table.c.line)
        .limit(limit)
    )
    return [FailedRow(*row) for row in db.execute(statement).all()]
