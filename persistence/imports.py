"""Imports: the jobs, the parts of their files, and the rows that failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg2
from sqlalchemy import Connection, delete, select

from domain.imports.records import QUEUED, RUNNING, UPLOADING, FailedRow, ImportJob, ImportPart
from persistence.connections import query
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

# The import that was worked on least recently, so that several are done side by side.
_TO_DO = f"status IN ('{QUEUED}', '{RUNNING}')"
_WAITING = f"SELECT organization_id, import_id FROM imports WHERE {_TO_DO} ORDER BY updated_at, import_id"
_CLAIM = f"""
SELECT {", ".join(fields_of(ImportJob))} FROM imports
WHERE organization_id = %s AND import_id = %s AND {_TO_DO} FOR NO KEY UPDATE SKIP LOCKED
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


def claim(db: Connection) -> ImportJob | None:
    """An import that is to be worked on, locked until the transaction ends; None if all are done or locked."""
    for address in query(db, _WAITING, ()):
        for row in query(db, _CLAIM, address):
            return ImportJob(*row)
    return None


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
    """One block of the file; each but the last of a part has `BLOCK_BYTES`."""
    [(content,)] = query(db, _BLOCK, (job.organization_id, job.import_id, part_number, block_number))
    return bytes(content)


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
