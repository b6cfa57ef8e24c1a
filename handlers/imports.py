"""Imports of files, which are jobs of the worker."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from domain.imports.records import ImportJob, ImportPart
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import wrapped
from handlers.messages.lists import listed
from handlers.messages.uploads import Upload
from handlers.operation import declare_get, declare_list, operation
from handlers.schemas.imports import (
    PART,
    ImportErrors,
    ImportStart,
    import_errors,
    import_errors_csv,
    import_record,
)
from handlers.services.imports import manage
from handlers.services.imports.manage import ImportProperties
from persistence.imports import IMPORTS

_IMPORT = import_record(lambda: datetime.now(UTC))
_IMPORT_RESPONSE = wrapped("import", _IMPORT)
_AUDITED = Audited("import", "import_id", _IMPORT)


declare_list("listImports", IMPORTS.find_page, listed(_IMPORT))


@operation("createImport", response=_IMPORT_RESPONSE, audit=_AUDITED)
def create_import(call: Call, body: ImportProperties) -> ImportJob:
    """Begin an import."""
    return manage.create_import(call, body)


declare_get("getImport", "import_job", _IMPORT_RESPONSE)


@operation("uploadImportPart", body=lambda upload: upload, response=wrapped("part", PART))
def upload_import_part(call: Call, import_job: ImportJob, part_number: int, body: Upload) -> ImportPart:
    """Store a part of the file."""
    return manage.upload_part(call, import_job, part_number, body)


@operation("startImport", response=_IMPORT_RESPONSE, audit=_AUDITED.changing("import_job"))
def start_import(call: Call, import_job: ImportJob, body: ImportStart) -> ImportJob:
    """Start the import; the worker does it."""
    return manage.start_import(call, import_job, body.parts)


@operation("cancelImport", response=_IMPORT_RESPONSE, audit=_AUDITED.changing("import_job"))
def cancel_import(call: Call, import_job: ImportJob) -> ImportJob:
    """End the import; the rows that were imported stay."""
    return manage.cancel_import(call, import_job)


@operation("getImportErrors", response=import_errors, representations={"text/csv": import_errors_csv})
def get_import_errors(call: Call, import_job: ImportJob, query: Mapping[str, Any]) -> ImportErrors:
    """Rows of the import that failed, those after the line `afterLine`."""
    rows = manage.find_failed_rows(call, import_job, query["afterLine"], query["limit"])
    return ImportErrors(import_job, rows)
