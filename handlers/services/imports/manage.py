"""The operations on imports: create, upload the file, start, cancel, and read the rows that failed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.exports import ROLE_OF_KIND as READING_ROLES
from domain.imports.records import (
    CANCELLED,
    CREATE,
    CSV,
    ENDED,
    MAX_UNFINISHED_IMPORTS,
    QUEUED,
    ROLE_OF_KIND,
    UNFINISHED,
    UPLOADING,
    FailedRow,
    ImportIncomplete,
    ImportJob,
    ImportLimit,
    ImportPart,
    ImportState,
)
from handlers.call import Call
from handlers.messages.base import values_of
from handlers.messages.uploads import Upload
from handlers.services.file_jobs import count_unfinished, refuse_without_role
from persistence import audit_log, imports
from persistence.imports import IMPORTS

_MAX_LISTED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProperties:
    """The properties of a new import."""

    kind: str
    format: str
    mode: str = CREATE
    dry_run: bool = False
    emit_events: bool = False
    ignore_unknown_columns: bool = False
    delimiter: str | None = None
    encoding: str = "utf-8"
    column_names: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None


def create_import(call: Call, properties: ImportProperties) -> ImportJob:
    """Create an import, whose file is uploaded next.

    Raises Forbidden for a caller who may not write the imported records, and ImportLimit if the organization has too
    many unfinished imports.
    """
    refuse_without_role(call, "import", properties.kind, ROLE_OF_KIND)
    if count_unfinished(call, IMPORTS, UNFINISHED) >= MAX_UNFINISHED_IMPORTS:
        raise ImportLimit(
            f"{MAX_UNFINISHED_IMPORTS} imports of the organization are being uploaded, queued or running, the maximum."
            " Wait until one is done, or cancel one by cancelImport."
        )
    delimiter = properties.delimiter if properties.format == CSV else None
    values = {**values_of(properties), "delimiter": delimiter, "status": UPLOADING}
    return IMPORTS.add(call.db, call.organization.organization_id, values, call.now)


def upload_part(call: Call, job: ImportJob, part_number: int, content: Upload) -> ImportPart:
    """Store a part of the file; the same content again changes nothing, other content replaces the stored part.

    Raises ImportState if the import was started, or if the organization's files would need too much space.
    """
    refuse_without_role(call, "import", job.kind, ROLE_OF_KIND)
    job = IMPORTS.lock(call.db, job)
    _refuse_other_state(job, UPLOADING)
    parts_by_number = {part.part_number: part for part in imports.find_parts(call.db, job)}
    existing_part = parts_by_number.get(part_number)
    if existing_part is not None and (existing_part.size, existing_part.sha256) == (len(content), content.sha256):
        return existing_part
    more_bytes = len(content) - (existing_part.size if existing_part is not None else 0)
    if more_bytes > 0:
        _refuse_above_stored_bytes(call, more_bytes)
    blocks = content.blocks(imports.BLOCK_BYTES)
    part = imports.add_part(
        call.db, job, part_number, blocks, size=len(content), sha256=content.sha256, created_at=call.now
    )
    IMPORTS.store(call.db, job, {"bytes_total": job.bytes_total + more_bytes}, call.now)
    if more_bytes > 0:
        # Count again, with the parts that other calls have stored meanwhile.
        audit_log.acquire_lock(call.db, job.organization_id, "stored files of imports")
        _refuse_above_stored_bytes(call, 0)
    return part


def _refuse_above_stored_bytes(call: Call, more_bytes: int) -> None:
    """Refuse a part if the stored files of the organization exceed their limit with `more_bytes`."""
    limit = call.settings.import_stored_bytes
    total = IMPORTS.stored_bytes(call.db, call.organization.organization_id) + more_bytes
    if total > limit:
        raise ImportState(
            f"With this part, the files of imports that have not ended have {total} bytes; the organization may have"
            f" {limit}. Wait until imports end, or cancel some."
        )


def start_import(call: Call, job: ImportJob, parts: int) -> ImportJob:
    """Queue the import for the worker; an import that was started before with the same number of parts stays unchanged.

    Raises ImportIncomplete if one of the parts from 1 to `parts` is missing, and ImportState if more were uploaded.
    """
    refuse_without_role(call, "import", job.kind, ROLE_OF_KIND)
    job = IMPORTS.lock(call.db, job)
    if job.parts == parts and job.status != CANCELLED:
        return job
    _refuse_other_state(job, UPLOADING)
    stored_numbers = {part.part_number for part in imports.find_parts(call.db, job)}
    missing_numbers = [str(number) for number in range(1, parts + 1) if number not in stored_numbers]
    if missing_numbers:
        more = f" and {len(missing_numbers) - _MAX_LISTED} more" if len(missing_numbers) > _MAX_LISTED else ""
        numbers = ", ".join(missing_numbers[:_MAX_LISTED])
        raise ImportIncomplete(f"Parts 1 to {parts} are needed; these parts were not uploaded: {numbers}{more}.")
    if len(stored_numbers) > parts:
        raise ImportState(f"{len(stored_numbers)} parts were uploaded, which is more than {parts}.")
    return IMPORTS.store(call.db, job, {"status": QUEUED, "parts": parts}, call.now)


def cancel_import(call: Call, job: ImportJob) -> ImportJob:
    """End the import; rows that were imported stay. An import that was cancelled before stays unchanged.

    Raises ImportState for an import that is done or has failed.
    """
    refuse_without_role(call, "import", job.kind, ROLE_OF_KIND)
    job = IMPORTS.lock(call.db, job)
    if job.status == CANCELLED:
        return job
    if job.status in ENDED:
        raise ImportState(f"The import is already {job.status}.")
    return IMPORTS.end(call.db, job, CANCELLED, call.now)


def find_failed_rows(call: Call, job: ImportJob, after_line: int, limit: int) -> list[FailedRow]:
    """Return rows that failed; raises Forbidden for a caller who may not read records of the imported kind."""
    refuse_without_role(call, "import", job.kind, READING_ROLES)
    return imports.find_failed_rows(call.db, job, after_line, limit)


def _refuse_other_state(job: ImportJob, status: str) -> None:
    if job.status != status:
        raise ImportState(f"The import is {job.status}, not {status}.")
