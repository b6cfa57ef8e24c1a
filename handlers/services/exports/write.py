"""Writes exports: all rows of one snapshot of the database, stored part by part.

If a worker dies, another worker writes its export again from the beginning, with a new snapshot.
"""

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine

from domain.exports import ABANDONED_AFTER, DONE, FAILED, QUEUED, RUNNING, ExportJob
from handlers.services.exports.rows import ROWS, ExportedRow, json_line
from handlers.services.turns import Turns
from persistence import exported_rows, exports, organizations, transactions
from persistence.exported_rows import ExportRange
from persistence.exports import EXPORTS
from persistence.transactions import is_unavailable

# A part ends with the row that reaches one of these limits, so that it can be read and sent as a whole.
ROWS_IN_PART, CHARACTERS_IN_PART = 10_000, 2_000_000

_log = logging.getLogger("loyalty.exports")


class ExportWriter:
    """Writes exports, one after the other; `stopping` returns True once the worker is to end."""

    def __init__(self, engine: Engine, stopping: Callable[[], bool]) -> None:
        self._engine = engine
        self._stopping = stopping
        self._turns = Turns()

    def step(self) -> bool:
        """Write an export of the organization served longest ago; False if no export waits, or the worker is to end."""
        job = transactions.run(self._engine, self._claim)
        if job is None:
            return False
        try:
            return self._write(job)
        except Exception as error:
            if is_unavailable(error):
                raise
            _log.exception("the export %s failed", job.export_id)
            self._run_if_mine(job, lambda db, current: EXPORTS.end(db, current, FAILED, datetime.now(UTC)))
            return True

    def _claim(self, db: Connection) -> ExportJob | None:
        """Claim an export of the organization served longest ago; None if no export waits."""
        now = datetime.now(UTC)
        for address in self._turns.sort(EXPORTS.find_waiting(db, abandoned=now - ABANDONED_AFTER)):
            job = exports.claim(db, *address, now)
            if job is not None:
                self._turns.note(job.organization_id)
                return job
        return None

    def _write(self, job: ExportJob) -> bool:
        """Write an export; False if the worker is to end before it is done."""
        with self._engine.connect() as db:
            exported_rows.begin_snapshot(db)
            now = organizations.find_time(db, job.organization_id)
            export_range = ExportRange(job.organization_id, job.after, job.updated_from, job.filters, now)
            for content, rows, last_id in _parts(ROWS[job.kind](db, export_range)):
                if self._stopping():
                    # Another worker continues it.
                    self._run_if_mine(
                        job, lambda db, current: EXPORTS.store(db, current, {"status": QUEUED}, datetime.now(UTC))
                    )
                    return False
                if not self._add_part(job, content, rows, last_id):
                    return True
        self._run_if_mine(job, _finish)
        return True

    def _add_part(self, job: ExportJob, content: str, rows: int, last_id: int) -> bool:
        """Store a part; False, without storing it, if another attempt has begun or the export was cancelled."""

        def add(db: Connection) -> bool:
            return exports.add_part(db, job, content, rows, last_id, datetime.now(UTC))

        return transactions.run(self._engine, add)

    def _run_if_mine(self, job: ExportJob, do: Callable[[Connection, ExportJob], object]) -> None:
        """Run `do` with the locked export, unless another attempt has begun or the export was cancelled."""

        def work(db: Connection) -> None:
            current = EXPORTS.lock(db, job)
            if (current.status, current.attempt) == (RUNNING, job.attempt):
                do(db, current)

        transactions.run(self._engine, work)


def _finish(db: Connection, job: ExportJob) -> None:
    now = datetime.now(UTC)
    EXPORTS.store(db, job, {"status": DONE, "finished_at": now}, now)
    _log.info("the export %s is done: %s rows in %s parts", job.export_id, job.rows, job.parts)


def _parts(rows: Iterator[ExportedRow]) -> Iterator[tuple[str, int, int]]:
    """The content of each part as lines of JSON, with the number of its rows and the id of the last one."""
    lines: list[str] = []
    characters, last_id = 0, 0
    for row in rows:
        line = json_line(row)
        lines.append(line)
        characters, last_id = characters + len(line), row.row_id
        if len(lines) >= ROWS_IN_PART or characters >= CHARACTERS_IN_PART:
            yield "".join(lines), len(lines), last_id
            lines, characters = [], 0
    if lines:
        yield "".join(lines), len(lines), last_id
