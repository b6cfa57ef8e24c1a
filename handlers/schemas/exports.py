"""Exports on the wire."""

from typing import Any

from domain.exports import ExportJob
from handlers.messages import json_text
from handlers.messages.base import Instant, Plain, Shape, WireSchema
from handlers.services.exports.manage import ExportPart
from handlers.services.exports.rows import ExportedRow, csv_header, csv_row


class _ComputedFields(WireSchema):
    filters = Plain(attribute="all_filters")
    expires_at = Instant()


EXPORT = Shape(_ComputedFields, ExportJob, without=("filters",))


def export_part_response(part: ExportPart) -> dict[str, Any]:
    """The rows of a part as JSON."""
    return {"results": [json_text.decode_stored(line) for line in part.lines]}


def export_part_lines(part: ExportPart) -> str:
    """The rows of a part as lines of JSON."""
    return "".join(f"{line}\n" for line in part.lines)


def export_part_csv(part: ExportPart) -> str:
    """The rows of a part as CSV; only the first part has the names of the columns, so that all parts make one file."""
    header = csv_header(part.job.kind) if part.part_number == 1 else ""
    rows = (csv_row(part.job.kind, ExportedRow(0, json_text.decode_stored(line))) for line in part.lines)
    return header + "".join(rows)
