"""Exports as their callers see them: begin, cancel, read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from domain.exports import (
    CANCELLED,
    DONE,
    EXPIRED,
    FAILED,
    QUEUED,
    ROLE_OF_KIND,
    RUNNING,
    ExportJob,
    ExportState,
    UnknownExportPart,
)
from domain.problems import Forbidden
from handlers.call import Call
from persistence import exports


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportProperties:
    """The properties of a new export."""

    kind: str
    updated_from: datetime | None = None
    after: int = 0
    description: str | None = None


@dataclass(frozen=True, slots=True)
class ExportPart:
    """A part of the rows of an export, as lines of JSON."""

    job: ExportJob
    part_number: int
    lines: Sequence[str]


def create_export(call: Call, asked: ExportProperties) -> ExportJob:
    """Begin an export, which the worker writes; raises Forbidden for a caller who may not read what it holds."""
    _refuse_without_role(call, asked.kind)
    return exports.add_export(
        call.db,
        call.organization.organization_id,
        kind=asked.kind,
        updated_from=asked.updated_from,
        after=asked.after,
        description=asked.description,
        created_at=call.now,
        updated_at=call.now,
    )


def cancel_export(call: Call, job: ExportJob) -> ExportJob:
    """End an export and remove its rows; one that has ended without rows stays as it is."""
    _refuse_without_role(call, job.kind)
    job = exports.lock(call.db, job)
    return job if job.status in (FAILED, CANCELLED, EXPIRED) else exports.end(call.db, job, CANCELLED, call.now)


def read_part(call: Call, job: ExportJob, part_number: int) -> ExportPart:
    """A part of an export that is complete.

    Raises ExportState for one that is not, or not any more, UnknownExportPart, and Forbidden as `create_export` does.
    """
    _refuse_without_role(call, job.kind)
    if job.status != DONE:
        wait = " Its rows can be read when it is done." if job.status in (QUEUED, RUNNING) else ""
        raise ExportState(f"The export is {job.status}.{wait}")
    content = exports.read_part(call.db, job, part_number)
    if content is None:
        raise UnknownExportPart(f"The export has {job.parts} parts, and none with the number {part_number}.")
    return ExportPart(job, part_number, content.splitlines())


def _refuse_without_role(call: Call, kind: str) -> None:
    role = ROLE_OF_KIND[kind]
    if call.caller is None or not call.caller.holds(role):
        raise Forbidden(f"An export of {kind} also needs the role {role}.")
