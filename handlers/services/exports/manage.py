"""The operations on exports: create, cancel, read a part."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.exports import (
    CANCELLED,
    DONE,
    EXPIRED,
    FAILED,
    FILTERS_OF_KIND,
    MAX_UNFINISHED_EXPORTS,
    QUEUED,
    ROLE_OF_KIND,
    ROWS_KEPT_FOR,
    RUNNING,
    ExportJob,
    ExportLimit,
    ExportState,
    UnknownExportPart,
)
from domain.problems import FieldFault, InvalidRequest
from handlers.call import Call
from handlers.messages.base import Shape, values_of
from handlers.services import references
from handlers.services.file_jobs import count_unfinished, refuse_without_role
from persistence.exports import EXPORTS


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFilters:
    """The filters of a new export; None means no condition."""

    created_from: datetime | None = None
    created_to: datetime | None = None
    member_id: int | None = None
    event_type: str | None = None
    ledger_account_id: int | None = None
    coupon_book_id: int | None = None


_FILTERS = Shape(ExportFilters)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportProperties:
    """The properties of a new export; its rows have ids greater than `after`."""

    kind: str
    updated_from: datetime | None = None
    after: int = 0
    filters: ExportFilters = ExportFilters()
    description: str | None = None


@dataclass(frozen=True, slots=True)
class ExportPart:
    """A part of the rows of an export, as lines of JSON."""

    job: ExportJob
    part_number: int
    lines: Sequence[str]


def create_export(call: Call, properties: ExportProperties) -> ExportJob:
    """Begin an export, which the worker writes.

    Raises Forbidden for a caller who may not read the exported records, InvalidRequest for filters that the kind does
    not have, and ExportLimit if the organization has too many exports. A filter that names an unknown record is
    refused, too.
    """
    refuse_without_role(call, "export", properties.kind, ROLE_OF_KIND)
    filters = filters_on_wire(properties.filters)
    _refuse_unknown_filters(properties.kind, filters)
    references.refuse_unknown(
        call,
        member=properties.filters.member_id,
        ledger_account=properties.filters.ledger_account_id,
        coupon_book=properties.filters.coupon_book_id,
    )
    _refuse_above_limits(call)
    values = {**values_of(properties), "filters": filters, "status": QUEUED}
    return EXPORTS.add(call.db, call.organization.organization_id, values, call.now)


def _refuse_above_limits(call: Call) -> None:
    """Refuse an export if too many of the organization are unfinished, or their stored rows have reached their limit.

    Waits for other calls that create an export of the organization, so that this call counts theirs.
    """
    if count_unfinished(call, EXPORTS, (QUEUED, RUNNING)) >= MAX_UNFINISHED_EXPORTS:
        raise ExportLimit(
            f"{MAX_UNFINISHED_EXPORTS} exports of the organization are queued or running, the maximum. Wait until one"
            " is done, or cancel one by cancelExport."
        )
    limit = call.settings.export_stored_bytes
    total = EXPORTS.stored_bytes(call.db, call.organization.organization_id)
    if total >= limit:
        raise ExportLimit(
            f"The rows of the organization's exports have {total} bytes; the organization may have {limit}. Remove the"
            f" rows of an export by cancelExport, or wait: they are removed {ROWS_KEPT_FOR.days} days after the export"
            " was done."
        )


def filters_on_wire(filters: ExportFilters) -> dict[str, Any]:
    """The filters that are set, in the form of a request body."""
    return {name: value for name, value in _FILTERS.dump(filters).items() if value is not None}


def _refuse_unknown_filters(kind: str, names: Iterable[str]) -> None:
    """Refuse filters that exports of this kind do not have."""
    filters_of_kind = FILTERS_OF_KIND[kind]
    reason = f"is no filter of {kind}, which are filtered by {', '.join(sorted(filters_of_kind))}"
    faults = [
        FieldFault(f"{name} {reason}", pointer=f"/filters/{name}") for name in names if name not in filters_of_kind
    ]
    if faults:
        raise InvalidRequest(faults)


def cancel_export(call: Call, job: ExportJob) -> ExportJob:
    """End an export and remove its rows; one that has failed, expired or been cancelled stays unchanged."""
    refuse_without_role(call, "export", job.kind, ROLE_OF_KIND)
    job = EXPORTS.lock(call.db, job)
    return job if job.status in (FAILED, CANCELLED, EXPIRED) else EXPORTS.end(call.db, job, CANCELLED, call.real_now)


def read_part(call: Call, job: ExportJob, part_number: int) -> ExportPart:
    """Read a part of an export that is done.

    Raises ExportState for an export in any other state, UnknownExportPart, and Forbidden for a caller who may not read
    the exported records.
    """
    refuse_without_role(call, "export", job.kind, ROLE_OF_KIND)
    if job.status != DONE:
        wait = " Its rows can be read when it is done." if job.status in (QUEUED, RUNNING) else ""
        raise ExportState(f"The export is {job.status}.{wait}")
    content: str | None = EXPORTS.read_content(call.db, job, part_number=part_number)
    if content is None:
        raise UnknownExportPart(f"The export has {job.parts} parts, and none with the number {part_number}.")
    return ExportPart(job, part_number, content.removesuffix("\n").split("\n"))
