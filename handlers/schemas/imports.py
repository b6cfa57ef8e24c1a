"""Imports on the wire."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from domain.calendar import instant_text
from domain.imports.cells import ERROR_COLUMNS, csv_line, escape_formula
from domain.imports.records import FailedRow, ImportJob, ImportPart
from handlers.messages.base import Plain, Shape, WireSchema
from handlers.services.imports.manage import ImportProperties


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportStart:
    """The number of parts that the file of an import has."""

    parts: int


@dataclass(frozen=True, slots=True)
class ImportErrors:
    """The rows of an import that failed, with the columns of its file."""

    job: ImportJob
    rows: Sequence[FailedRow]


class _ComputedFields(WireSchema):
    rows_per_second = Plain()


PART = Shape(ImportPart, without=("organization_id", "import_id"))
_JOB = Shape(ImportProperties, _ComputedFields, ImportJob)
_ROW = Shape(FailedRow, without=("row", "loyalty_member_id"), names={"column_name": "column"})


def import_record(now: Callable[[], Any]) -> Callable[[ImportJob], dict[str, Any]]:
    """A function that renders an import, with its end as estimated at the time of the response."""

    def render(job: ImportJob) -> dict[str, Any]:
        end = job.estimated_end(now())
        return {**_JOB.dump(job), "estimatedEndAt": None if end is None else instant_text(end)}

    return render


def import_errors(errors: ImportErrors) -> dict[str, Any]:
    """The rows that failed as JSON; `row` is the text of the row in a CSV file."""
    return {"results": [{**_ROW.dump(row), "row": _text_of(row)} for row in errors.rows]}


def _text_of(row: FailedRow) -> str:
    """The row as a line of CSV, or its text if it was not split into cells."""
    return row.row if isinstance(row.row, str) else csv_line(row.row).removesuffix("\r\n")


def import_errors_csv(errors: ImportErrors) -> str:
    """The failed rows as a CSV file, each with its fault; clients can correct the file and send it again."""
    # None for a file that is not CSV.
    header = errors.job.header
    lines = [csv_line([*ERROR_COLUMNS, *(("row",) if header is None else header)])]
    for row in errors.rows:
        cells = [row.row] if isinstance(row.row, str) else row.row
        error_cells = (str(row.line), row.column_name or "", row.reason)
        lines.append(csv_line(escape_formula(cell) for cell in (*error_cells, *cells)))
    return "".join(lines)
