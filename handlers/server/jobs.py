"""The periodic jobs of a worker; most are commands, too. Two runs of a job at the same time do no harm.

Nothing depends on their punctuality: expired points and tiers do not count from the moment of expiry on. The jobs only
record the expiry.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine

from domain.imports.records import MAX_UPLOAD_AGE
from domain.organizations import Organization
from handlers import tracing
from handlers.services.events.release_answers import release_answers
from handlers.services.ledger.expire import Expired, expire_next
from handlers.services.ledger.notices import report_next
from handlers.services.tiers import Evaluated, evaluate_next
from handlers.services.webhooks.send_deliveries import remove_old_deliveries
from handlers.settings import Settings
from persistence import audit_log, exports, imports, organizations, periodic_jobs, transactions
from persistence.test_clocks import find_and_hold_clock

Batch = TypeVar("Batch")
Result = TypeVar("Result")

RELEASE_ANSWERS, REMOVE_DELIVERIES = "release-answers", "remove-deliveries"
ENTRIES_IN_A_SEAL = 1000
EXPORTS_AT_ONCE = 10
_EXPIRE_EXPORTS_MINUTES = _REMOVE_UPLOADS_MINUTES = 60
# Notices are due at a time of the day, so this job runs often.
_REPORT_EXPIRING_MINUTES = 2
_ABANDONED = "The import was not started within a day after its last part, so its file was removed."

_log = logging.getLogger("loyalty.jobs")


class PartlyFailed(Exception):
    """A job failed for some organizations, and was done for all others."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class JobRun:
    """The arguments of a run; `stopping` returns True once the run is to stop.

    `real_time_ids` are the organizations without a test clock: only their records are removed because of their age.
    `last_result` is the summary of the last complete run, empty if there was none.
    """

    engine: Engine
    settings: Settings
    organization_ids: Sequence[int]
    real_time_ids: Sequence[int]
    last_result: Mapping[str, Any]
    stopping: Callable[[], bool] = _never

    def do_for(self, organization_ids: Iterable[int], work: Callable[[int], Result]) -> list[Result]:
        """Do the work for each organization until the run is to stop; return the results.

        If the work fails for some organizations, it is still done for the others. Raises PartlyFailed in the end, and
        at once the error of an unavailable database.
        """
        results, failed_ids = [], []
        for organization_id in organization_ids:
            if self.stopping():
                break
            try:
                results.append(work(organization_id))
            except Exception as error:
                if transactions.is_unavailable(error):
                    raise
                _log.exception("a job failed for the organization %d", organization_id)
                failed_ids.append(organization_id)
        if failed_ids:
            raise PartlyFailed(f"The job failed for {len(failed_ids)} organizations, the first is {failed_ids[0]}.")
        return results


@dataclass(frozen=True, slots=True)
class Job:
    """A job by its name. `minutes` returns the interval, 0 for never; `run` a summary, None if the run was stopped."""

    name: str
    minutes: Callable[[Settings], int]
    run: Callable[[JobRun], Mapping[str, Any] | None]


@dataclass(slots=True)
class ExpiredPoints:
    """The points that expired in an organization: the amount and the number of wallets by account id."""

    amounts: dict[int, Decimal]
    wallets: dict[int, int]


def _run_batches(
    engine: Engine,
    organization_id: int,
    work: Callable[[Connection, Organization, datetime], Batch | None],
    stopping: Callable[[], bool],
) -> Iterator[Batch]:
    """Call `work` in one transaction after the other, with the organization and its time; yield each result.

    Ends when `work` returns None, or if another transaction changes or advances the test clock.
    """

    def next_batch(db: Connection) -> Batch | None:
        organization = find_and_hold_clock(db, organization_id)
        return None if organization is None else work(db, organization, organization.time_at(datetime.now(UTC)))

    while not stopping() and (batch := transactions.run(engine, next_batch)) is not None:
        yield batch


def expire_points(engine: Engine, organization_id: int, stopping: Callable[[], bool] = _never) -> ExpiredPoints:
    """Post the expiries of one organization, in several transactions."""
    last_wallet_id, expired = 0, ExpiredPoints({}, {})

    def expire(db: Connection, organization: Organization, now: datetime) -> Expired | None:
        return expire_next(db, organization, last_wallet_id, now)

    for batch in _run_batches(engine, organization_id, expire, stopping):
        last_wallet_id = batch.last_wallet_id
        for account_id, amount in batch.amounts.items():
            expired.amounts[account_id] = expired.amounts.get(account_id, Decimal(0)) + amount
            expired.wallets[account_id] = expired.wallets.get(account_id, 0) + len(batch.wallets[account_id])
    return expired


def evaluate_tiers(
    engine: Engine, organization_id: int, everyone: bool = False, stopping: Callable[[], bool] = _never
) -> tuple[int, int]:
    """Evaluate the expired tiers of one organization, or with `everyone` all tiers, in several transactions.

    Returns the number of members and the number of moves.
    """
    last_wallet_id, members, moves = 0, 0, 0

    def evaluate(db: Connection, organization: Organization, now: datetime) -> Evaluated | None:
        return evaluate_next(db, organization, last_wallet_id, now, everyone=everyone)

    for evaluated in _run_batches(engine, organization_id, evaluate, stopping):
        last_wallet_id = evaluated.last_wallet_id
        members, moves = members + evaluated.members, moves + evaluated.moves
    return members, moves


def _expire(run: JobRun) -> Mapping[str, Any] | None:
    expired = run.do_for(run.organization_ids, lambda i: expire_points(run.engine, i, run.stopping))
    return None if run.stopping() else {"wallets": sum(sum(batch.wallets.values()) for batch in expired)}


def _evaluate(run: JobRun) -> Mapping[str, Any] | None:
    counts = run.do_for(run.organization_ids, lambda i: evaluate_tiers(run.engine, i, stopping=run.stopping))
    members, moves = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    return None if run.stopping() else {"members": members, "moves": moves}


def report_expiring(engine: Engine, organization_id: int, stopping: Callable[[], bool] = _never) -> int:
    """Report to the members of one organization which points will expire, in several transactions.

    Returns the number of events.
    """

    def report(db: Connection, organization: Organization, now: datetime) -> int | None:
        return report_next(db, organizations.find_details(db, organization.organization_id), now)

    return sum(_run_batches(engine, organization_id, report, stopping))


def _report_expiring(run: JobRun) -> Mapping[str, Any] | None:
    reported = run.do_for(run.organization_ids, lambda i: report_expiring(run.engine, i, run.stopping))
    return None if run.stopping() else {"events": sum(reported)}


def _release(run: JobRun) -> Mapping[str, Any] | None:
    # The run continues after the event up to which the last run has released responses.
    days, up_to = run.settings.answers_kept_days, run.last_result.get("upTo", 0)
    if not days:
        return {"answers": 0, "upTo": up_to}
    before = datetime.now(UTC) - timedelta(days=days)
    released = release_answers(run.engine, run.real_time_ids, up_to, before, run.stopping)
    return None if released is None else {"answers": released.answers, "upTo": released.up_to}


def _remove_deliveries(run: JobRun) -> Mapping[str, Any] | None:
    days = run.settings.deliveries_kept_days
    ids = run.real_time_ids if days else ()
    counts = run.do_for(ids, lambda i: remove_old_deliveries(run.engine, i, days, run.stopping))
    return None if run.stopping() else {"deliveries": sum(counts)}


def _expire_exports(run: JobRun) -> Mapping[str, Any] | None:
    expired, last_count = 0, EXPORTS_AT_ONCE
    while last_count == EXPORTS_AT_ONCE and not run.stopping():
        last_count = transactions.run(run.engine, lambda db: exports.expire(db, datetime.now(UTC), EXPORTS_AT_ONCE))
        expired += last_count
    return None if run.stopping() else {"exports": expired}


def _remove_uploads(run: JobRun) -> Mapping[str, Any] | None:
    def fail_abandoned(organization_id: int) -> int:
        def fail(db: Connection) -> int:
            now = datetime.now(UTC)
            return imports.fail_abandoned(db, organization_id, now - MAX_UPLOAD_AGE, now, _ABANDONED)

        return transactions.run(run.engine, fail)

    failed = run.do_for(run.real_time_ids, fail_abandoned)
    return None if run.stopping() else {"imports": sum(failed)}


def seal_audit_log(engine: Engine, organization_id: int, stopping: Callable[[], bool] = _never) -> int:
    """Seal all unsealed entries of an organization's audit log, some of them in each seal. Returns their number."""
    sealed, last_count = 0, ENTRIES_IN_A_SEAL

    def next_seal(db: Connection) -> int:
        return audit_log.seal(db, organization_id, datetime.now(UTC), ENTRIES_IN_A_SEAL)

    while last_count == ENTRIES_IN_A_SEAL and not stopping():
        last_count = transactions.run(engine, next_seal)
        sealed += last_count
    return sealed


def _seal(run: JobRun) -> Mapping[str, Any] | None:
    sealed = run.do_for(run.organization_ids, lambda i: seal_audit_log(run.engine, i, run.stopping))
    return None if run.stopping() else {"entries": sum(sealed)}


JOBS: Sequence[Job] = (
    Job("expire", lambda settings: settings.expire_minutes, _expire),
    Job("evaluate-tiers", lambda settings: settings.evaluate_tiers_minutes, _evaluate),
    Job("report-expiring", lambda settings: _REPORT_EXPIRING_MINUTES, _report_expiring),
    Job(RELEASE_ANSWERS, lambda settings: settings.release_answers_minutes, _release),
    Job(REMOVE_DELIVERIES, lambda settings: settings.remove_deliveries_minutes, _remove_deliveries),
    Job("expire-exports", lambda settings: _EXPIRE_EXPORTS_MINUTES, _expire_exports),
    Job("remove-uploads", lambda settings: _REMOVE_UPLOADS_MINUTES, _remove_uploads),
    Job("seal-audit-log", lambda settings: settings.seal_audit_log_minutes, _seal),
)


def run_job(engine: Engine, settings: Settings, name: str) -> Mapping[str, Any]:
    """Run a job now, even if another process is running it, and store its summary; return the summary."""
    job = next(job for job in JOBS if job.name == name)
    transactions.run(engine, lambda db: periodic_jobs.add_missing(db, [name], datetime.now(UTC)))
    last_result = transactions.run(engine, lambda db: periodic_jobs.last_result(db, name))
    result = _run(engine, settings, job, last_result, _never)
    if result is None:
        raise AssertionError("a run that is not stopped is complete")
    return result


def run_due_job(engine: Engine, settings: Settings, stopping: Callable[[], bool], jobs: Sequence[Job] = JOBS) -> bool:
    """Run the job that has been due longest; False if none is due.

    A failure is logged and stored; the job runs again when it is due the next time.
    """
    intervals = {job.name: timedelta(minutes=job.minutes(settings)) for job in jobs if job.minutes(settings)}
    due = transactions.run(engine, lambda db: periodic_jobs.claim(db, intervals, datetime.now(UTC)))
    if due is None:
        return False
    job = next(job for job in jobs if job.name == due.name)
    try:
        with tracing.span(f"job {job.name}", {}):
            result = _run(engine, settings, job, due.last_result, stopping)
    except Exception as error:
        _log.exception("the job %s failed", job.name)
        # `last_result` stays unchanged: the next run starts from the last complete one.
        failure = {"finished_at": datetime.now(UTC), "last_error": type(error).__name__}
        transactions.run(engine, lambda db: periodic_jobs.store(db, job.name, **failure))
        return True
    if result is None:
        # The run was stopped, so the job is due again at once.
        transactions.run(engine, lambda db: periodic_jobs.store(db, job.name, next_run_at=datetime.now(UTC)))
    else:
        _log.info("the job %s is done: %s", job.name, dict(result))
    return True


def add_jobs(engine: Engine, jobs: Sequence[Job] = JOBS) -> None:
    """Add the jobs that this installation has never run."""
    transactions.run(engine, lambda db: periodic_jobs.add_missing(db, [j.name for j in jobs], datetime.now(UTC)))


def _run(
    engine: Engine,
    settings: Settings,
    job: Job,
    last_result: Mapping[str, Any] | None,
    stopping: Callable[[], bool],
) -> Mapping[str, Any] | None:
    """Run a job and store its summary; return the summary, None if the run was stopped."""
    all_organizations = transactions.run(engine, organizations.find_all)
    ids = [organization.organization_id for organization in all_organizations]
    real_time_ids = [
        organization.organization_id for organization in all_organizations if organization.clock_now is None
    ]
    result = job.run(JobRun(engine, settings, ids, real_time_ids, last_result or {}, stopping))
    if result is not None:
        values = {"finished_at": datetime.now(UTC), "last_result": result, "last_error": None}
        transactions.run(engine, lambda db: periodic_jobs.store(db, job.name, **values))
    return result
