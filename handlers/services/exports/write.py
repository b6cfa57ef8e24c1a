"""Writes exports: all rows of one snapshot of the database, stored part by part.

Exports of several organizations are written alternately, so that a large one does not keep the others waiting. If a
worker dies, another worker writes its exports again from the beginning, with new snapshots. An export at which workers
die again and again ends as failed.
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine

from domain.exports import ABANDONED_AFTER, DONE, FAILED, MAX_CRASHES, QUEUED, RUNNING, ExportJob, ExportTooLarge
from handlers.services.exports.rows import ROWS, ExportedRow, json_line
from handlers.services.turns import Address, Turns
from handlers.settings import Settings
from persistence import exported_rows, exports, organizations, transactions
from persistence.exported_rows import ExportRange
from persistence.exports import EXPORTS
from persistence.transactions import is_lock_timeout, is_unavailable

# A part ends with the row that reaches one of these limits, so that it can be read and sent as a whole.
ROWS_IN_PART, CHARACTERS_IN_PART = 10_000, 2_000_000
# After this time, which is checked after this number of rows, it is the turn of another organization.
STEP_SECONDS, ROWS_BETWEEN_CHECKS = 1.0, 100
MAX_OPEN_EXPORTS = 3
"""The maximum number of exports that a worker writes alternately; each has a connection with its snapshot."""

_log = logging.getLogger("loyalty.exports")


@dataclass(frozen=True, slots=True)
class _Part:
    """The content of a part as lines of JSON, with the number of its rows and the id of the last one."""

    content: str
    row_count: int
    last_id: int


@dataclass(frozen=True, slots=True)
class _OpenExport:
    """An export that this worker writes: the connection with its snapshot, and the parts that are not stored yet.

    A None among the parts is a place at which another export can be written first.
    """

    job: ExportJob
    db: Connection
    parts: Iterator[_Part | None]


class ExportWriter:
    """Writes exports, at most one of each organization at once; `is_stopping` returns True if the worker has to end."""

    def __init__(self, engine: Engine, settings: Settings, is_stopping: Callable[[], bool]) -> None:
        self._engine = engine
        self._settings = settings
        self._is_stopping = is_stopping
        self._turns = Turns()
        self._open_exports: dict[Address, _OpenExport] = {}

    def step(self) -> bool:
        """Write the next rows of an export, of the organization served longest ago.

        Returns False if no export waits, or the worker is to end.
        """
        job = None if self._is_stopping() else transactions.run(self._engine, self._next_job)
        if job is not None:
            try:
                self._write(job)
            except ExportTooLarge as error:
                _log.info("the export %s failed: %s", job.export_id, error)
                self._fail(job, str(error))
            except Exception as error:
                if is_unavailable(error):
                    self._close(job)
                    raise
                if is_lock_timeout(error):
                    # A call is ending the export. If it does not, the export is written again as an abandoned one.
                    _log.info("the export %s is locked", job.export_id)
                    self._close(job)
                else:
                    _log.exception("the export %s failed", job.export_id)
                    self._fail(job, "The server had an unexpected error, which is in its log.")
        if self._is_stopping():
            self._return_to_queue()
            return False
        return job is not None

    def _next_job(self, db: Connection) -> ExportJob | None:
        """Return the job of an open export, or claim a waiting one, of the organization served longest ago.

        Returns None if no export waits.
        """
        now = datetime.now(UTC)
        waiting_jobs = EXPORTS.find_waiting(db, abandoned=now - ABANDONED_AFTER)
        busy_organizations = {organization_id for organization_id, _ in self._open_exports}
        for address in self._turns.sort([*self._open_exports, *waiting_jobs]):
            job = None
            organization_id, export_id = address
            if address in self._open_exports:
                job = self._open_exports[address].job
            elif len(self._open_exports) < MAX_OPEN_EXPORTS and organization_id not in busy_organizations:
                job = exports.claim(db, organization_id, export_id, now)
            if job is not None:
                self._turns.record(job.organization_id)
                return job
        return None

    def _write(self, job: ExportJob) -> None:
        """Write rows of an export until the time of the step is over or the export is done."""
        if job.crashes >= MAX_CRASHES:
            self._fail(job, f"Workers have died {job.crashes} times while they wrote the export.")
            return
        end = time.monotonic() + STEP_SECONDS
        for part in self._open(job).parts:
            if part is not None and not self._add_part(job, part):
                self._close(job)
                return
            if time.monotonic() >= end or self._is_stopping():
                # Shows other workers that the export is not abandoned.
                self._run_if_mine(job, lambda db, current_job: EXPORTS.store(db, current_job, {}, datetime.now(UTC)))
                return
        self._close(job)
        self._run_if_mine(job, _finish)

    def _open(self, job: ExportJob) -> _OpenExport:
        """Return the open export of the job; open it if the job was claimed just now."""
        address = _address(job)
        if address not in self._open_exports:
            db = self._engine.connect()
            self._open_exports[address] = _OpenExport(job, db, _parts(_rows_of(db, job)))
        return self._open_exports[address]

    def _close(self, job: ExportJob) -> None:
        """End the snapshot of an export, if it is open."""
        open_export = self._open_exports.pop(_address(job), None)
        if open_export is not None:
            open_export.db.close()

    def _fail(self, job: ExportJob, reason: str) -> None:
        """Mark an export as failed, and remove its rows."""
        self._close(job)
        self._run_if_mine(job, lambda db, current_job: EXPORTS.end(db, current_job, FAILED, datetime.now(UTC), reason))

    def _return_to_queue(self) -> None:
        """Let another worker write the open exports."""
        for open_export in list(self._open_exports.values()):
            self._close(open_export.job)
            self._run_if_mine(
                open_export.job,
                lambda db, current_job: EXPORTS.store(db, current_job, {"status": QUEUED}, datetime.now(UTC)),
            )

    def _add_part(self, job: ExportJob, part: _Part) -> bool:
        """Store a part; False, without storing it, if another attempt has begun or the export was cancelled.

        Raises ExportTooLarge, without storing it, if the exports of the organization would exceed their bytes.
        """
        limit = self._settings.export_stored_bytes

        def add(db: Connection) -> bool:
            is_added = exports.add_part(db, job, part.content, part.row_count, part.last_id, datetime.now(UTC))
            if is_added and EXPORTS.stored_bytes(db, job.organization_id) > limit:
                raise ExportTooLarge(
                    f"The rows of the organization's exports would have more than {limit} bytes, the maximum. Remove"
                    " the rows of other exports by cancelExport, or select fewer rows by filters."
                )
            return is_added

        return transactions.run(self._engine, add)

    def _run_if_mine(self, job: ExportJob, action: Callable[[Connection, ExportJob], object]) -> None:
        """Run `action` with the locked export, unless another attempt has begun or the export was cancelled."""

        def work(db: Connection) -> None:
            current_job = EXPORTS.lock(db, job)
            if (current_job.status, current_job.attempt) == (RUNNING, job.attempt):
                action(db, current_job)

        transactions.run(self._engine, work)


def _finish(db: Connection, job: ExportJob) -> None:
    now = datetime.now(UTC)
    EXPORTS.store(db, job, {"status": DONE, "finished_at": now}, now)
    _log.info("the export %s is done: %s rows in %s parts", job.export_id, job.rows, job.parts)


def _address(job: ExportJob) -> Address:
    return job.organization_id, job.export_id


def _rows_of(db: Connection, job: ExportJob) -> Iterator[ExportedRow]:
    """The rows of an export, in a snapshot that begins with the first row."""
    exported_rows.begin_snapshot(db)
    now = organizations.find_time(db, job.organization_id)
    export_range = ExportRange(job.organization_id, job.after, job.updated_from, job.filters, now)
    yield from ROWS[job.kind](db, export_range)


def _parts(rows: Iterator[ExportedRow]) -> Iterator[_Part | None]:
    """The parts of the rows; None after every ROWS_BETWEEN_CHECKS rows."""
    lines: list[str] = []
    characters, last_id = 0, 0
    for number, row in enumerate(rows, 1):
        line = json_line(row)
        lines.append(line)
        characters, last_id = characters + len(line), row.row_id
        if len(lines) >= ROWS_IN_PART or characters >= CHARACTERS_IN_PART:
            yield _Part("".join(lines), len(lines), last_id)
            lines = []
            characters = 0
        if number % ROWS_BETWEEN_CHECKS == 0:
            yield None
    if lines:
        yield _Part("".join(lines), len(lines), last_id)
