"""Exports of rows, which are jobs of the worker."""

from domain.exports import ExportJob
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import wrapped
from handlers.messages.lists import listed
from handlers.operation import declare_get, declare_list, operation
from handlers.schemas.exports import EXPORT, export_part_csv, export_part_lines, export_part_response
from handlers.services.exports import manage
from handlers.services.exports.manage import ExportPart, ExportProperties
from persistence.exports import EXPORTS

_EXPORT_RESPONSE = wrapped("export", EXPORT)
_AUDITED = Audited("export", "export_id", EXPORT)


declare_list("listExports", EXPORTS.find_page, listed(EXPORT))


@operation("createExport", response=_EXPORT_RESPONSE, audit=_AUDITED)
def create_export(call: Call, body: ExportProperties) -> ExportJob:
    """Begin an export."""
    return manage.create_export(call, body)


declare_get("getExport", "export_job", _EXPORT_RESPONSE)


@operation("cancelExport", response=_EXPORT_RESPONSE, audit=_AUDITED.changing("export_job"))
def cancel_export(call: Call, export_job: ExportJob) -> ExportJob:
    """End the export and remove its rows."""
    return manage.cancel_export(call, export_job)


@operation(
    "getExportPart",
    response=export_part_response,
    representations={"application/x-ndjson": export_part_lines, "text/csv": export_part_csv},
)
def get_export_part(call: Call, export_job: ExportJob, part_number: int) -> ExportPart:
    """One part of the rows of the export."""
    return manage.read_part(call, export_job, part_number)
