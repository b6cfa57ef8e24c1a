"""The work on imports: a set of rows in each database transaction, which also notes how far the import is.

So a worker that dies leaves an import where it is, and another one goes on there. Any number of workers may take turns.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
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
    RUNNING,
    FailedRow,
    FileFault,
    ImportJob,
)
from handlers.call import ADMINISTRATION, Call
from handlers.services.imports.audience_members import import_audience_members
from handlers.services.imports.badges import import_badges
from handlers.services.imports.balances import import_balances
from handlers.services.imports.checks import NameOf
from handlers.services.imports.coupon_codes import import_coupon_codes
from handlers.services.imports.coupons import import_coupons
from handlers.services.imports.events import import_events
from handlers.services.imports.members import import_members
from handlers.services.imports.rows import ImportRow, RowReader
from handlers.settings import Settings
from persistence import imports, organizations, transactions
from persistence.transactions import is_away

_log = logging.getLogger("loyalty.imports")

_DRY_RUN = "dry_run_of_import"
_UNEXPECTED = "The row could not be imported. The log of the worker says why."

ImportRows = Callable[[Call, ImportJob, Sequence[ImportRow], NameOf], list[FailedRow]]
_KINDS: Mapping[str, ImportRows] = {
    MEMBERS: import_members,
    BALANCES: import_balances,
    COUPON_CODES: import_coupon_codes,
    COUPONS: import_coupons,
    BADGES: import_badges,
    AUDIENCE_MEMBERS: import_audience_members,
    EVENTS: import_events,
}


class Importer:
    """Works off imports, one set of rows after the other."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._reader: RowReader | None = None
        # Fewer rows at once after a fault, to find the row that has it.
        self._at_once = settings.import_rows
        # The rows that the transaction under way has done.
        self._done = 0

    def step(self) -> bool:
        """Do the next rows of the import that waits longest; False if there is none."""
        began = time.monotonic()
        try:
            has_worked = transactions.run(self._engine, self._work)
        except Exception as error:
            # Whatever was read ahead is read again.
            self._reader = None
            if is_away(error):
                raise
            _log.exception("rows of an import could not be imported together")
            has_worked = self._find_fault()
        else:
            self._at_once = min(2 * self._at_once, self._settings.import_rows)
            self._go_on()
        if has_worked:
            share = self._settings.import_share / 100
            time.sleep((time.monotonic() - began) * (1 / share - 1))
        return has_worked

    def _find_fault(self) -> bool:
        """Do fewer rows at once from now on; a row alone fails."""
        if self._at_once > 1:
            self._at_once = max(1, self._at_once // 4)
            return True
        has_worked = transactions.run(self._engine, self._fail_row)
        self._go_on()
        return has_worked

    def _go_on(self) -> None:
        """Pass over the rows that are committed."""
        if self._reader is not None:
            self._reader.take(self._done)
        self._done = 0

    def _work(self, db: Connection) -> bool:
        self._done = 0
        began = time.monotonic()
        job = imports.claim(db)
        if job is None:
            return False
        now = datetime.now(UTC)
        reader = self._reader_of(db, job)
        try:
            rows = _about_one_member_each(job, reader.peek(self._at_once))
        except FileFault as fault:
            self._end(db, job, FAILED, now, str(fault))
            return True
        if not rows:
            self._end(db, job, DONE, now)
            return True
        failed = self._imported(db, job, rows, reader.name_of, now)
        self._note(db, job, rows, failed, began, now)
        return True

    def _imported(
        self, db: Connection, job: ImportJob, rows: Sequence[ImportRow], name_of: NameOf, now: datetime
    ) -> list[FailedRow]:
        """Import rows; a dry run leaves no trace of it. Returns the rows that failed."""
        organization = organizations.find(db, job.organization_id)
        assert organization is not None
        call = Call(
            db=db,
            organization=organization,
            now=now,
            request_id=f"import-{job.import_id}",
            caller=None,
            surface=ADMINISTRATION,
            settings=self._settings,
            is_quiet=not job.emit_events,
        )
        if not job.dry_run:
            return _KINDS[job.kind](call, job, rows, name_of)
        db.exec_driver_sql(f"SAVEPOINT {_DRY_RUN}")
        failed = _KINDS[job.kind](call, job, rows, name_of)
        db.exec_driver_sql(f"ROLLBACK TO SAVEPOINT {_DRY_RUN}")
        return failed

    def _fail_row(self, db: Connection) -> bool:
        """Note the next row as one that failed for a reason that only the log tells."""
        began, job = time.monotonic(), imports.claim(db)
        if job is None:
            return False
        rows = self._reader_of(db, job).peek(1)
        self._note(db, job, rows, [row.failed(_UNEXPECTED) for row in rows], began, datetime.now(UTC))
        return True

    def _reader_of(self, db: Connection, job: ImportJob) -> RowReader:
        """The reader at the place where the import is: the one of the last step, if nobody else has worked on it."""
        reader = self._reader
        if reader is None or (reader.import_id, reader.next_byte) != (job.import_id, job.next_byte):
            reader = self._reader = RowReader(db, job, imports.find_parts(db, job))
        reader.db = db
        return reader

    def _note(
        self,
        db: Connection,
        job: ImportJob,
        rows: Sequence[ImportRow],
        failed: Sequence[FailedRow],
        began: float,
        now: datetime,
    ) -> None:
        """Store how far the import is."""
        imports.add_failed(db, job, failed)
        if not rows:
            return
        reader, last = self._reader_of(db, job), rows[-1]
        self._done = len(rows)
        progress: dict[str, Any] = {
            "status": RUNNING,
            "rows_read": job.rows_read + len(rows),
            "rows_done": job.rows_done + len(rows) - len(failed),
            "rows_failed": job.rows_failed + len(failed),
            "bytes_read": reader.bytes_read_at(last),
            "header": reader.header,
            "delimiter": reader.delimiter,
            "next_byte": last.next_byte,
            "next_line": last.next_line,
            "worked_ms": job.worked_ms + max(1, round((time.monotonic() - began) * 1000)),
            "updated_at": now,
            "started_at": job.started_at or now,
        }
        imports.change_import(db, job, **progress)

    def _end(self, db: Connection, job: ImportJob, status: str, now: datetime, error: str | None = None) -> None:
        imports.remove_file(db, job)
        imports.change_import(
            db,
            job,
            status=status,
            error=error,
            bytes_read=job.bytes_total if status == DONE else job.bytes_read,
            updated_at=now,
            started_at=job.started_at or now,
            finished_at=now,
        )
        told = (job.import_id, status, job.rows_read, job.rows_failed)
        _log.info("the import %s is %s: %s rows, %s of them failed", *told)


def _about_one_member_each(job: ImportJob, rows: Sequence[ImportRow]) -> list[ImportRow]:
    """The rows before the first one about a member whom an earlier one is about, if each member takes one row.

    The next set of rows then sees what these have done.
    """
    if job.kind != MEMBERS:
        return list(rows)
    seen: set[Any] = set()
    for position, row in enumerate(rows):
        name = row.values.get("loyaltyMemberId")
        if name is not None and name in seen:
            return list(rows[:position])
        seen.add(name)
    return list(rows)
