"""Imports: the jobs, the parts of their files, and the rows that failed."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg2
from sqlalchemy import Connection, delete, func, select, update

from domain.imports.records import FAILED, QUEUED, RUNNING, UPLOADING, FailedRow, ImportEnded, ImportJob, ImportPart
from persistence.connections import defer, query
from persistence.paging import Page, Paged, paged
from persistence.rows import add, add_all, change, columns_of, fields_of, record, records
from persistence.tables.imports import failed_import_rows, import_blocks, import_parts, imports

BLOCK_BYTES = 1024 * 1024

ORDER_COLUMNS = {
    "importId": imports.c.import_id,
    "status": imports.c.status,
    "createdAt": imports.c.created_at,
    "updatedAt": imports.c.updated_at,
}

_COLUMNS = columns_of(imports, ImportJob)
_PART_COLUMNS = columns_of(import_parts, ImportPart)
_FAILED_FIELDS = ("organization_id", "import_id", *fields_of(FailedRow))

_ADD_BLOCK = """
INSERT INTO import_blocks (organization_id, import_id, part_number, block_number, content)
VALUES (%s, %s, %s, %s, %s) RETURNING block_number
"""

_BLOCK = """
SELECT content FROM import_blocks
WHERE organization_id = %s AND import_id = %s AND part_number = %s AND block_number = %s
"""

_TO_DO = f"status IN ('{QUEUED}', '{RUNNING}')"
_WAITING = f"SELECT organization_id, import_id FROM imports WHERE {_TO_DO} ORDER BY updated_at, import_id"
# Not the row is locked, so that an import can be cancelled meanwhile.
_CLAIM = "SELECT pg_try_advisory_xact_lock(hashtextextended('import ' || %s, %s))"
_JOB = f"""
SELECT {", ".join(fields_of(ImportJob))} FROM imports WHERE organization_id = %s AND import_id = %s AND {_TO_DO}
"""
_NOTE_BEGIN = """
UPDATE imports SET crashes = crashes + 1, careful_until = CASE crashes WHEN 0 THEN rows_read + %s ELSE careful_until END
WHERE organization_id = %s AND import_id = %s
"""
_FORGIVE_BEGIN = """
UPDATE imports SET crashes = greatest(crashes - 1, 0) WHERE organization_id = %s AND import_id = %s
"""


def find(db: Connection, organization_id: int, import_id: int) -> ImportJob | None:
    """The import with this id."""
    statement = select(*_COLUMNS).where(imports.c.organization_id == organization_id, imports.c.import_id == import_id)
    return record(ImportJob, db.execute(statement).one_or_none())


def lock(db: Connection, job: ImportJob) -> ImportJob:
    """The import as it is now, locked."""
    statement = select(*_COLUMNS).where(
        imports.c.organization_id == job.organization_id, imports.c.import_id == job.import_id
    )
    return ImportJob(*db.execute(statement.with_for_update(key_share=True)).one())


def find_page(
    db: Connection, organization_id: int, page: Page, *, kind: str | None = None, status: str | None = None
) -> Paged[ImportJob]:
    """A page of the imports of a kind and in a status, as far as they are given."""
    conditions = [imports.c.organization_id == organization_id]
    if kind is not None:
        conditions.append(imports.c.kind == kind)
    if status is not None:
        conditions.append(imports.c.status == status)
    return paged(db, ImportJob, imports, conditions, page, imports.c.import_id, ORDER_COLUMNS)


def add_import(db: Connection, organization_id: int, **values: Any) -> ImportJob:
    """Insert an import."""
    return add(db, imports, ImportJob, {"organization_id": organization_id, "status": UPLOADING, **values})


def change_import(db: Connection, job: ImportJob, **values: Any) -> ImportJob:
    """Change an import."""
    address = {"organization_id": job.organization_id, "import_id": job.import_id}
    return change(db, imports, ImportJob, address, values)


def stored_bytes(db: Connection, organization_id: int) -> int:
    """Return the size of the uploaded files of the imports that have not ended."""
    statement = select(func.coalesce(func.sum(imports.c.bytes_total), 0)).where(
        imports.c.organization_id == organization_id, imports.c.status.in_((UPLOADING, QUEUED, RUNNING))
    )
    return int(db.execute(statement).scalar_one())


def fail_abandoned(db: Connection, organization_id: int, before: datetime, now: datetime, error: str) -> int:
    """End imports that were not started and got no part since `before`; remove their files and return their number."""
    statement = (
        update(imports)
        .where(
            imports.c.organization_id == organization_id,
            imports.c.status == UPLOADING,
            imports.c.updated_at < before,
        )
        .values(status=FAILED, error=error, updated_at=now, finished_at=now)
        .returning(imports.c.import_id)
    )
    import_ids = db.execute(statement).scalars().all()
    for import_id in import_ids:
        _remove_content(db, {"organization_id": organization_id, "import_id": import_id})
    return len(import_ids)


def find_waiting(db: Connection) -> list[tuple[int, int]]:
    """The organization and id of the imports that are to be worked on, first the one that waits longest."""
    return [(row[0], row[1]) for row in query(db, _WAITING, ())]


def claim(db: Connection, organization_id: int, import_id: int) -> ImportJob | None:
    """The import, which no other worker claims until the transaction ends; None if one does, or it has ended."""
    [(is_claimed,)] = query(db, _CLAIM, (import_id, organization_id))
    rows = query(db, _JOB, (organization_id, import_id)) if is_claimed else []
    return ImportJob(*rows[0]) if rows else None


def note_begin(db: Connection, job: ImportJob, rows: int) -> None:
    """Note that a worker begins with so many rows: if it dies, the next one finds that."""
    defer(db, _NOTE_BEGIN, (rows, job.organization_id, job.import_id))


def forgive_begin(db: Connection, job: ImportJob) -> None:
    """Take a noted begin back."""
    defer(db, _FORGIVE_BEGIN, (job.organization_id, job.import_id))


def advance(db: Connection, job: ImportJob, **values: Any) -> None:
    """Change an import that is worked on; raises ImportEnded if it was cancelled or moved meanwhile."""
    statement = update(imports).where(
        imports.c.organization_id == job.organization_id,
        imports.c.import_id == job.import_id,
        imports.c.status.in_((QUEUED, RUNNING)),
        imports.c.next_byte == job.next_byte,
    )
    if not db.execute(statement.values(**values)).rowcount:
        raise ImportEnded


def find_parts(db: Connection, job: ImportJob) -> list[ImportPart]:
    """The parts of the file that are stored, in their order."""
    mine = import_parts.c.organization_id == job.organization_id, import_parts.c.import_id == job.import_id
    statement = select(*_PART_COLUMNS).where(*mine).order_by(import_parts.c.part_number)
    return records(ImportPart, db.execute(statement).all())


def put_part(db: Connection, job: ImportJob, part_number: int, blocks: Iterable[bytes], **values: Any) -> ImportPart:
    """Store a part in the place of the one with this number, block by block."""
    address = {"organization_id": job.organization_id, "import_id": job.import_id, "part_number": part_number}
    _remove_content(db, address)
    part = add(db, import_parts, ImportPart, {**address, **values})
    for number, block in enumerate(blocks):
        query(db, _ADD_BLOCK, (*address.values(), number, psycopg2.Binary(block)))
    return part


def read_block(db: Connection, job: ImportJob, part_number: int, block_number: int) -> bytes:
    """One block of the file; each but the last of a part has `BLOCK_BYTES`. Raises ImportEnded."""
    rows = query(db, _BLOCK, (job.organization_id, job.import_id, part_number, block_number))
    if not rows:
        raise ImportEnded
    return bytes(rows[0][0])


def remove_file(db: Connection, job: ImportJob) -> None:
    """Remove the content of the file."""
    _remove_content(db, {"organization_id": job.organization_id, "import_id": job.import_id})


def _remove_content(db: Connection, address: Mapping[str, int]) -> None:
    for table in (import_blocks, import_parts):
        db.execute(delete(table).where(*(table.c[name] == value for name, value in address.items())))


def add_failed(db: Connection, job: ImportJob, rows: Sequence[FailedRow]) -> None:
    """Store rows that failed, with one statement."""
    own = {"organization_id": job.organization_id, "import_id": job.import_id}
    names = fields_of(FailedRow)
    add_all(
        db,
        failed_import_rows,
        _FAILED_FIELDS,
        [{**own, **{name: getattr(row, name) for name in names}} for row in rows],
    )


def find_failed(db: Connection, job: ImportJob, after_line: int, limit: int) -> list[FailedRow]:
    """The rows that failed, in their order."""
    table = failed_import_rows
    statement = (
        select(*(table.c[name] for name in fields_of(FailedRow)))
        .where(
            table.c.organization_id == job.organization_id,
            table.c.import_id == job.import_id,
            table.c.line > after_line,
        )
        .order_by(table.c.line)
        .limit(limit)
    )
    return records(FailedRow, db.execute(statement).all())
