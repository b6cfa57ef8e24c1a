"""Exports of rows, by jobs that the worker does."""

from collections.abc import Mapping
from typing import Any

from domain.exports import ExportJob
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import wrapped
from handlers.messages.lists import listed
from handlers.operation import operation
from handlers.schemas.exports import EXPORT, export_part, export_part_csv, export_part_lines
from handlers.services.exports import manage
from handlers.services.exports.manage import ExportPart, ExportProperties
from persistence.exports import EXPORTS
from persistence.paging import Paged

_ONE = wrapped("export", EXPORT)
_AUDITED = Audited("export", "export_id", EXPORT)


@operation("listExports", answer=listed(EXPORT))
def list_exports(call: Call, query: Mapping[str, Any]) -> Paged[ExportJob]:
    """A page of the exports that match all filters."""
    return EXPORTS.find_page(call.db, call.organization.organization_id, query)


@operation("createExport", answer=_ONE, audit=_AUDITED)
def create_export(call: Call, body: ExportProperties) -> ExportJob:
    """Begin an export."""
    return manage.create_export(call, body)


@operation("getExport", answer=_ONE)
def get_export(call: Call, export_job: ExportJob) -> ExportJob:
    """An export and how far it is."""
    return export_job


@operation("cancelExport", answer=_ONE, audit=_AUDITED.changing("export_job"))
def cancel_export(call: Call, export_job: ExportJob) -> ExportJob:
    """End the export and remove its rows."""
    return manage.cancel_export(call, export_job)


@operation(
    "getExportPart",
    answer=export_part,
    representations={"application/x-ndjson": export_part_lines, "text/csv": export_part_csv},
)
def get_export_part(call: Call, export_job: ExportJob, part_number: int) -> ExportPart:
    """A part of the rows."""
    return manage.read_part(call, export_job, part_number)
