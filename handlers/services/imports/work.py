"""Processes imports: each database transaction imports a set of rows, and stores the position of the import.

If a worker dies, another worker continues at this position with fewer rows at once; an import at which workers die
again and again ends as failed. Any number of workers may run. Each serves one organization after the other.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Engine

from domain.imports.records import (
    AUDIENCE_MEMBERS,
    BADGES,
    BALANCES,
    COUPON_CODES,
    COUPONS,
    DONE,
    EVENTS,
    FAILED,
    MEMBERS,
    MISSION_PROGRESS,
    RUNNING,
    FailedRow,
    FileFault,
    ImportEnded,
    ImportJob,
)
from domain.organizations import Organization
from handlers.audit_trail import write_entries
from handlers.call import ADMINISTRATION, Call
from handlers.services.imports.audience_members import import_audience_members, import_badges
from handlers.services.imports.balances import import_balances
from handlers.services.imports.coupons import import_coupon_codes, import_coupons
from handlers.services.imports.events import import_events
from handlers.services.imports.members import import_members
from handlers.services.imports.mission_progress import import_mission_progress
from handlers.services.imports.reading import ImportStep
from handlers.services.imports.rows import ImportRow, RowReader
from handlers.services.turns import Turns
from handlers.settings import Settings
from persistence import imports, transactions
from persistence.imports import IMPORTS
from persistence.members import find_sizes
from persistence.test_clocks import find_and_hold_clock
from persistence.transactions import is_lock_timeout, is_unavailable

_log = logging.getLogger("loyalty.imports")

_DRY_RUN_SAVEPOINT = "dry_run_of_import"
_UNEXPECTED = "The row could not be imported. The log of the worker has the reason."
# A compressed file may always have this many bytes when decompressed, however small it is.
_ALWAYS_UNPACKED_BYTES = 16 * 1024 * 1024
# Campaigns may take long for each row, so the time is checked after few rows: the first time after `_EVALUATED_FIRST`,
# then after the number that fits into half of the step's remaining time, at most `_MAX_EVALUATED`. The rules of all
# these rows have the time of a call (LOYALTY_CALL_EVALUATION_MS), which is enough for 20 of the longest events.
_EVALUATED_FIRST, _MAX_EVALUATED = 20, 40
# After each crash at the same rows, the number of rows at once is divided by `_CRASH_DIVISOR`. After `_MAX_CRASHES`
# crashes the import fails.
_CRASH_DIVISOR, _MAX_CRASHES = 5, 5
# The profiles and customAttributes of the members that a step changes; they need up to thirty times as much in memory.
_MAX_MEMBER_BYTES = 4 * 1024 * 1024
# The number of imports whose readers are kept: a new reader of a compressed file begins at the start of the file.
_MAX_OPEN_IMPORTS = 16

_IMPORT_OF_KIND: Mapping[str, Callable[[ImportStep], None]] = {
    MEMBERS: import_members,
    BALANCES: import_balances,
    COUPON_CODES: import_coupon_codes,
    COUPONS: import_coupons,
    BADGES: import_badges,
    AUDIENCE_MEMBERS: import_audience_members,
    EVENTS: import_events,
    MISSION_PROGRESS: import_mission_progress,
}


@dataclass(slots=True)
class _OpenImport:
    """An import that this worker works on: its reader, None if it is closed, and the number of rows at once.

    After an error there are fewer rows at once, until a single row is found to cause the error. Then `is_row_at_fault`
    is true, and this row fails.
    """

    rows_at_once: int
    reader: RowReader | None = None
    is_row_at_fault: bool = False

    def close(self) -> None:
        """Free the rows that were read ahead; an import that continues reads these rows again."""
        if self.reader is not None:
            self.reader.close()
            self.reader = None


class Importer:
    """Imports rows, one set after the other."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._open_imports: OrderedDict[tuple[int, int], _OpenImport] = OrderedDict()
        self._turns = Turns()
        # The import whose step is running, and the number of rows that its transaction has done.
        self._running_job: ImportJob | None = None
        self._rows_done = 0

    def step(self) -> bool:
        """Import the next rows of an import, of the organization served longest ago; False if no import waits."""
        began_at = time.monotonic()
        try:
            has_worked = transactions.run(self._engine, self._work)
        except ImportEnded:
            self._discard_reader()
            has_worked = True
        except Exception as error:
            # The transaction has not imported the rows that were read ahead, so they have to be read again.
            open_import = self._discard_reader()
            is_locked = is_lock_timeout(error)
            if is_unavailable(error) or (open_import is None and not is_locked):
                raise
            if is_locked:
                _log.info("an import needs a row that is locked: it continues later")
            else:
                _log.exception("rows of an import could not be imported together")
            if open_import is not None:
                open_import.is_row_at_fault = not is_locked and open_import.rows_at_once == 1
                open_import.rows_at_once = max(1, open_import.rows_at_once // 4)
            has_worked = True
        else:
            self._advance_reader(time.monotonic() - began_at)
        if has_worked:
            # Imports use at most this share of the time.
            share = self._settings.import_share / 100
            time.sleep((time.monotonic() - began_at) * (1 / share - 1))
        return has_worked

    def _running_import(self) -> _OpenImport | None:
        """The import whose step is running, None if it has ended or no step is running."""
        return None if self._running_job is None else self._open_imports.get(_address(self._running_job))

    def _discard_reader(self) -> _OpenImport | None:
        """Close the reader of the running import; return this import, None if there is none."""
        open_import = self._running_import()
        if open_import is not None:
            open_import.close()
        return open_import

    def _advance_reader(self, seconds: float) -> None:
        """Skip the committed rows; import more rows at once next time, or fewer if these took too long."""
        open_import, self._running_job = self._running_import(), None
        if open_import is None:
            return
        if open_import.reader is not None:
            open_import.reader.take(self._rows_done)
        open_import.is_row_at_fault = False
        if seconds * 1000 > self._settings.import_step_ms:
            open_import.rows_at_once = max(1, open_import.rows_at_once // 2)
        else:
            open_import.rows_at_once = min(2 * open_import.rows_at_once, self._settings.import_rows)

    def _work(self, db: Connection) -> bool:
        """Claim an import and import its next rows, in one database transaction; False if no import waits."""
        self._forgive_unfinished_step()
        self._rows_done = 0
        job, call = self._claim(db)
        if job is None or call is None:
            return False
        began_at = time.monotonic()
        if job.crashes >= _MAX_CRASHES:
            reason = f"Workers have died {job.crashes} times at the rows from line {job.next_line} on."
            self._end(db, job, FAILED, call.now, reason)
            return True
        open_import = self._open_import_of(job)
        at_once = max(1, min(open_import.rows_at_once, self._settings.import_rows // _CRASH_DIVISOR**job.crashes))
        # In its own transaction, so that it stays recorded if this worker dies.
        transactions.run(self._engine, lambda db: imports.record_begin(db, job, at_once))
        self._running_job = job
        self._import_next(call, job, open_import, at_once, began_at)
        return True

    def _import_next(self, call: Call, job: ImportJob, open_import: _OpenImport, at_once: int, began_at: float) -> None:
        """Import the next rows, or end the import."""
        db, now = call.db, call.now
        reader = self._reader_of(db, job, open_import)
        try:
            rows = reader.peek(at_once)
        except FileFault as fault:
            self._end(db, job, FAILED, now, str(fault))
            return
        if not rows and reader.is_at_end:
            self._end(db, job, DONE, now)
            return
        if open_import.is_row_at_fault:
            failed_rows = [row.to_failed_row(_UNEXPECTED) for row in rows[:1]]
            self._rows_done = len(failed_rows)
        else:
            if job.kind == MEMBERS:
                rows = _rows_up_to_size(db, job, _rows_before_repeat(rows, "loyaltyMemberId"))
            failed_rows = self._import_rows(ImportStep(call, job, rows, reader.name_of))
        self._store_progress(db, job, reader, failed_rows, began_at, now)

    def _forgive_unfinished_step(self) -> None:
        """Record that this worker did not crash in the last step, though the step did not finish."""
        if self._running_job is not None:
            job = self._running_job
            transactions.run(self._engine, lambda db: imports.forgive_begin(db, job))
            self._running_job = None

    def _claim(self, db: Connection) -> tuple[ImportJob, Call] | tuple[None, None]:
        """Claim an import without a worker, of the organization served longest ago; return it with its call.

        Returns (None, None) if there is none. Imports of an organization wait while its test clock is advanced.
        """
        organizations_with_busy_clock: set[int] = set()
        for organization_id, import_id in self._turns.sort(IMPORTS.find_waiting(db)):
            if organization_id in organizations_with_busy_clock:
                continue
            # Claim the import before the clock is held. In the other order the clock would stay held during the step
            # of another organization if the import cannot be claimed.
            job = imports.claim(db, organization_id, import_id)
            if job is None:
                continue
            organization = find_and_hold_clock(db, organization_id)
            if organization is not None:
                self._turns.record(organization_id)
                return job, self._call_of(db, job, organization)
            organizations_with_busy_clock.add(organization_id)
        return None, None

    def _call_of(self, db: Connection, job: ImportJob, organization: Organization) -> Call:
        """The call on whose behalf the rows of an import are written; it has no caller."""
        return Call(
            db=db,
            organization=organization,
            now=organization.time_at(datetime.now(UTC)),
            request_id=f"import-{job.import_id}",
            caller=None,
            surface=ADMINISTRATION,
            settings=self._settings,
            is_quiet=not job.emit_events,
        )

    def _import_rows(self, step: ImportStep) -> list[FailedRow]:
        """Import rows until the time of the step is over; a dry run leaves no trace. Returns the rows that failed."""
        call, job, rows = step.call, step.job, step.rows
        if job.dry_run:
            call.db.exec_driver_sql(f"SAVEPOINT {_DRY_RUN_SAVEPOINT}")
        began_at = time.monotonic()
        remaining_seconds = self._settings.import_step_ms / 1000
        at_once = len(rows) if call.is_quiet else _EVALUATED_FIRST
        while self._rows_done < len(rows) and (not self._rows_done or remaining_seconds > 0):
            next_rows = rows[self._rows_done : self._rows_done + at_once]
            # A row whose key an earlier row has depends on whether the earlier one fails.
            next_rows = _rows_before_repeat(next_rows, "systemUniqueKey")
            _IMPORT_OF_KIND[job.kind](replace(step, rows=next_rows))
            self._rows_done += len(next_rows)
            elapsed = time.monotonic() - began_at
            remaining_seconds = self._settings.import_step_ms / 1000 - elapsed
            at_once = _rows_to_evaluate(remaining_seconds, elapsed / self._rows_done)
        # The changes are audited under the operation that started the import.
        write_entries([call], "startImport")
        if job.dry_run:
            call.db.exec_driver_sql(f"ROLLBACK TO SAVEPOINT {_DRY_RUN_SAVEPOINT}")
        return step.failed

    def _open_import_of(self, job: ImportJob) -> _OpenImport:
        """Return the open import of a job; close the least recently used one if too many are open."""
        open_import = self._open_imports.setdefault(_address(job), _OpenImport(self._settings.import_rows))
        self._open_imports.move_to_end(_address(job))
        if len(self._open_imports) > _MAX_OPEN_IMPORTS:
            _, least_recent = self._open_imports.popitem(last=False)
            least_recent.close()
        return open_import

    def _reader_of(self, db: Connection, job: ImportJob, open_import: _OpenImport) -> RowReader:
        """The reader at the position of the import; a new one if another worker has advanced the import."""
        reader = open_import.reader
        if reader is None or reader.next_byte != job.next_byte:
            open_import.close()
            by_ratio = max(_ALWAYS_UNPACKED_BYTES, self._settings.import_ratio * job.bytes_total)
            max_bytes = min(self._settings.import_unpacked_bytes, by_ratio)
            reader = open_import.reader = RowReader(db, job, imports.find_parts(db, job), max_bytes)
        reader.db = db
        return reader

    def _store_progress(
        self,
        db: Connection,
        job: ImportJob,
        reader: RowReader,
        failed_rows: Sequence[FailedRow],
        began_at: float,
        now: datetime,
    ) -> None:
        """Store the position of the import and its counts of rows; end it if too many of its rows have failed."""
        imports.add_failed_rows(db, job, failed_rows)
        next_byte, next_line = reader.position_after(self._rows_done)
        rows_read = job.rows_read + self._rows_done
        rows_failed = job.rows_failed + len(failed_rows)
        progress: dict[str, Any] = {
            "status": RUNNING,
            "rows_read": rows_read,
            "rows_done": job.rows_done + self._rows_done - len(failed_rows),
            "rows_failed": rows_failed,
            "bytes_read": reader.bytes_read_at(next_byte),
            "header": reader.header,
            "delimiter": reader.delimiter,
            "next_byte": next_byte,
            "next_line": next_line,
            "worked_ms": job.worked_ms + max(1, round((time.monotonic() - began_at) * 1000)),
            # Crashes are counted until the rows at which workers died are imported.
            "crashes": job.crashes if rows_read < job.careful_until else 0,
            "updated_at": now,
            "started_at": job.started_at or now,
        }
        imports.advance(db, job, **progress)
        if rows_failed > self._settings.import_failed_rows:
            reason = f"{rows_failed} rows failed; the import ends with more than {self._settings.import_failed_rows}."
            self._end(db, replace(job, **progress), FAILED, now, reason)

    def _end(self, db: Connection, job: ImportJob, status: str, now: datetime, error: str | None = None) -> None:
        """End an import and remove the first blocks of its file; `error` is the reason if it failed."""
        imports.advance(
            db,
            job,
            status=status,
            error=error,
            bytes_read=job.bytes_total if status == DONE else job.bytes_read,
            updated_at=now,
            started_at=job.started_at or now,
            finished_at=now,
        )
        IMPORTS.remove_content(db, job)
        open_import = self._open_imports.pop(_address(job), None)
        if open_import is not None:
            open_import.close()
        log_values = (job.import_id, status, job.rows_read, job.rows_failed)
        _log.info("the import %s is %s: %s rows, %s of them failed", *log_values)


def _address(job: ImportJob) -> tuple[int, int]:
    return job.organization_id, job.import_id


def _rows_to_evaluate(remaining_seconds: float, seconds_of_row: float) -> int:
    """The number of rows to evaluate before the time is checked again, with `remaining_seconds` left."""
    rows_in_time = int(remaining_seconds / 2 / seconds_of_row) if seconds_of_row else _MAX_EVALUATED
    return min(max(rows_in_time, _EVALUATED_FIRST), _MAX_EVALUATED)


def _rows_before_repeat(rows: Sequence[ImportRow], field_name: str) -> list[ImportRow]:
    """The rows before the first one that repeats the value of a field: the next rows see the changes by these."""
    values: set[Any] = set()
    for position, row in enumerate(rows):
        value = row.values.get(field_name)
        if value is not None and value in values:
            return list(rows[:position])
        values.add(value)
    return list(rows)


def _rows_up_to_size(db: Connection, job: ImportJob, rows: list[ImportRow]) -> list[ImportRow]:
    """The rows until the existing members that they name have `_MAX_MEMBER_BYTES` together; at least one row."""
    names = [row.values.get("loyaltyMemberId") for row in rows]
    sizes = find_sizes(db, job.organization_id, [name for name in names if isinstance(name, str)])
    size = 0
    for position, name in enumerate(names):
        if size >= _MAX_MEMBER_BYTES:
            return rows[:position]
        size += sizes.get(name, 0) if isinstance(name, str) else 0
    return rows
