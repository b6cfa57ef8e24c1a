"""Runs of periodic jobs: in steps, so that a job with much work does not delay the others."""

import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine

from handlers import tracing
from handlers.settings import Settings
from persistence import organizations, periodic_jobs, transactions

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""A run in steps: it yields after each transaction, so that other jobs can run in between."""

# A job that takes longer is interrupted, so that other jobs can run.
_SLICE_SECONDS = 1.0
# The time in which the work for an organization is begun again while a row that it needs is locked.
_LOCKED_SECONDS = 10.0

_log = logging.getLogger("loyalty.jobs")


class PartlyFailed(Exception):
    """A job failed for some organizations, and was done for all others."""


@dataclass(slots=True)
class JobRun:
    """The arguments of a run. `last_result` is the summary of the last complete run, empty if there was none.

    `is_due` is set when the job becomes due, at the beginning of the run and possibly again during it.
    """

    engine: Engine
    settings: Settings
    last_result: Mapping[str, Any]
    is_due: bool = True

    def do_for(
        self, work: Callable[[int], Iterator[Result]], *, real_time_only: bool = False
    ) -> Steps[Sequence[Result]]:
        """Do the work for each organization, in rounds of one batch of each; return the results of the batches.

        An organization without a further batch leaves the rounds, until the job becomes due again during the run.
        `real_time_only` leaves out organizations with a test clock.

        If the work fails for some organizations, it is still done for the others. Raises PartlyFailed in the end, and
        at once the error of an unavailable database. If a row is locked, the organization begins its work again in the
        next rounds; it fails only after `_LOCKED_SECONDS`.
        """
        results: list[Result] = []
        failed_ids: set[int] = set()
        locked_since: dict[int, float] = {}
        # The batches of each organization that has some left, by its id.
        open_work: dict[int, Iterator[Result]] = {}
        while True:
            if self.is_due:
                self.is_due = False
                for organization_id in self._find_ids(real_time_only):
                    open_work.setdefault(organization_id, work(organization_id))
            for organization_id, batches in list(open_work.items()):
                try:
                    results.append(next(batches))
                    locked_since.pop(organization_id, None)
                except StopIteration:
                    del open_work[organization_id]
                except Exception as error:
                    if transactions.is_unavailable(error):
                        raise
                    now = time.monotonic()
                    is_locked = transactions.is_lock_timeout(error)
                    if is_locked and now - locked_since.setdefault(organization_id, now) < _LOCKED_SECONDS:
                        open_work[organization_id] = work(organization_id)
                    else:
                        _log.exception("a job failed for the organization %d", organization_id)
                        failed_ids.add(organization_id)
                        del open_work[organization_id]
                yield
            if not open_work:
                break
        if failed_ids:
            raise PartlyFailed(f"The job failed for {len(failed_ids)} organizations, the first is {min(failed_ids)}.")
        return results

    def _find_ids(self, real_time_only: bool) -> list[int]:
        """The ids of the organizations to do the work for."""
        return [
            organization.organization_id
            for organization in transactions.run(self.engine, organizations.find_all)
            if organization.clock_now is None or not real_time_only
        ]


@dataclass(frozen=True, slots=True)
class Job:
    """A job by its name. `minutes` returns the interval, 0 for never; `run` returns a summary in the end."""

    name: str
    minutes: Callable[[Settings], int]
    run: Callable[[JobRun], Steps[Mapping[str, Any]]]


def advance(steps: Steps[Result], is_interrupted: Callable[[], bool]) -> Result | None:
    """Continue a run until it ends or is interrupted; return its result, None if it was interrupted."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        if is_interrupted():
            return None


def store_end(db: Connection, name: str, result: Mapping[str, Any]) -> None:
    """Store that a run of a job ended with this summary."""
    periodic_jobs.store(db, name, finished_at=datetime.now(UTC), last_result=result, last_error=None)


@dataclass(slots=True)
class _OpenRun:
    """A run of a claimed job that has not ended. The worker renews the claim after each slice of the run."""

    name: str
    interval: timedelta
    started_at: datetime
    run: JobRun
    steps: Steps[Mapping[str, Any]]

    def proceed(self, is_stopping: Callable[[], bool]) -> bool:
        """Continue the run for some time; True if it has ended.

        A failure is logged and stored; the job runs again when it is due the next time.
        """
        slice_end = time.monotonic() + _SLICE_SECONDS
        engine = self.run.engine
        try:
            with tracing.span(f"job {self.name}", {}):
                result = advance(self.steps, lambda: is_stopping() or time.monotonic() >= slice_end)
            if result is None:
                transactions.run(engine, lambda db: periodic_jobs.renew(db, *self._claim, datetime.now(UTC)))
                return False
            transactions.run(engine, lambda db: self._store_result(db, result))
        except Exception as error:
            _log.exception("the job %s failed", self.name)
            transactions.run(engine, partial(self._store_failure, error=error))
        else:
            _log.info("the job %s is done: %s", self.name, dict(result))
        return True

    def _store_result(self, db: Connection, result: Mapping[str, Any]) -> None:
        """Store the summary of the complete run, and end its claim."""
        store_end(db, self.name, result)
        periodic_jobs.end_claim(db, *self._claim, datetime.now(UTC))

    def _store_failure(self, db: Connection, error: Exception) -> None:
        """Store that the run failed; end its claim, unless the database is unavailable."""
        # `last_result` stays unchanged: the next run starts from the last complete one.
        now = datetime.now(UTC)
        periodic_jobs.store(db, self.name, finished_at=now, last_error=type(error).__name__)
        # Without a database, the claim ends soon, so that the job continues when the database is available.
        if not transactions.is_unavailable(error):
            periodic_jobs.end_claim(db, *self._claim, now)

    @property
    def _claim(self) -> tuple[str, datetime, timedelta]:
        """The arguments by which functions of `periodic_jobs` identify the claim."""
        return self.name, self.started_at, self.interval


def run_due_jobs(engine: Engine, settings: Settings, is_stopping: Callable[[], bool], jobs: Sequence[Job]) -> bool:
    """Run the jobs that are due, the one that has been due longest first; False if none is due.

    A job with much work is interrupted for jobs that become due, and then continues where it was.
    """
    intervals = {job.name: timedelta(minutes=job.minutes(settings)) for job in jobs if job.minutes(settings)}
    # The run that was interrupted last is at the end.
    open_runs: dict[str, _OpenRun] = {}
    has_run = False
    try:
        while not is_stopping():
            claim = transactions.run(engine, lambda db: periodic_jobs.claim(db, intervals, datetime.now(UTC)))
            if claim is None and not open_runs:
                break
            if claim is None:
                open_run = open_runs.pop(next(iter(open_runs)))
            elif claim.name in open_runs:
                open_run = open_runs.pop(claim.name)
                open_run.run.is_due, open_run.started_at = True, claim.started_at
            else:
                run = JobRun(engine, settings, claim.last_result or {})
                steps = next(job for job in jobs if job.name == claim.name).run(run)
                open_run = _OpenRun(claim.name, intervals[claim.name], claim.started_at, run, steps)
            if not open_run.proceed(is_stopping):
                open_runs[open_run.name] = open_run
            has_run = True
    finally:
        # The worker is to stop, so the interrupted jobs are due again at once.
        for name in open_runs:
            transactions.run(engine, partial(periodic_jobs.store, name=name, next_run_at=datetime.now(UTC)))
    return has_run
