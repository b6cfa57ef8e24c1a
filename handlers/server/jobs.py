"""The periodic jobs of a worker; most are commands, too. Two runs of a job at the same time do no harm.

Nothing depends on their punctuality: expired points and tiers do not count from the moment of expiry on. The jobs only
record the expiry. An organization with much work does not delay the others: a job alternates between organizations, and
a worker alternates between jobs.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, Self, TypeVar

from sqlalchemy import Connection, Engine

from domain.imports.records import MAX_UPLOAD_AGE
from domain.organizations import Organization
from handlers.server.job_runs import Job, JobRun, Steps, advance, store_end
from handlers.services import wallet_batches
from handlers.services.events.release_answers import ReleasedResponses, release_answers
from handlers.services.ledger.expire import PostedExpiries, expire_next
from handlers.services.ledger.notices import report_next
from handlers.services.members.finish_erasing import erase_next
from handlers.services.tiers import EvaluatedTiers, evaluate_next
from handlers.services.webhooks.send_deliveries import remove_old_deliveries
from handlers.settings import Settings
from persistence import audit_log, exports, imports, organizations, periodic_jobs, transactions
from persistence.exports import EXPORTS
from persistence.file_jobs import FileJobs
from persistence.imports import IMPORTS
from persistence.test_clocks import find_and_hold_clock

Batch = TypeVar("Batch")

RELEASE_ANSWERS, REMOVE_DELIVERIES = "release-answers", "remove-deliveries"
ENTRIES_IN_A_SEAL = 1000
EXPORTS_AT_ONCE = 10
_EXPIRE_EXPORTS_MINUTES = _REMOVE_UPLOADS_MINUTES = 10
# Notices are due at a time of the day, so this job runs often.
_REPORT_EXPIRING_MINUTES, _FINISH_ERASINGS_MINUTES = 2, 1
_ABANDONED = "The import was not started within a day after its last part, so its file was removed."


@dataclass(slots=True)
class ExpiredPoints:
    """The points that expired in an organization: the amount and the number of wallets by account id."""

    amounts: dict[int, Decimal]
    wallets: dict[int, int]


def _run_batches(
    engine: Engine, organization_id: int, work: Callable[[Connection, Organization, datetime, int], Batch | None]
) -> Iterator[Batch]:
    """Call `work` in one transaction after the other; yield each result.

    Gives `work` the organization, its time, and the maximum number of wallets or rows. Ends when `work` returns None,
    or if another transaction changes or advances the test clock.
    """
    limit = wallet_batches.FIRST_WALLETS

    def next_batch(db: Connection) -> Batch | None:
        organization = find_and_hold_clock(db, organization_id)
        return None if organization is None else work(db, organization, organization.time_at(datetime.now(UTC)), limit)

    begin = time.monotonic()
    while (batch := transactions.run(engine, next_batch)) is not None:
        limit = wallet_batches.next_limit(limit, time.monotonic() - begin)
        yield batch
        begin = time.monotonic()


def _expire_batches(engine: Engine, organization_id: int) -> Iterator[PostedExpiries]:
    """Expire the points of an organization batch by batch, in the order of wallets."""
    last_wallet_id = 0

    def expire(db: Connection, organization: Organization, now: datetime, limit: int) -> PostedExpiries | None:
        return expire_next(db, organization, last_wallet_id, now, limit)

    for batch in _run_batches(engine, organization_id, expire):
        last_wallet_id = batch.last_wallet_id
        yield batch


def expire_points(engine: Engine, organization_id: int) -> ExpiredPoints:
    """Post the expiries of one organization, in several transactions."""
    amounts: dict[int, Decimal] = {}
    wallet_counts: dict[int, int] = {}
    for batch in _expire_batches(engine, organization_id):
        for account_id, amount in batch.amounts.items():
            amounts[account_id] = amounts.get(account_id, Decimal(0)) + amount
            wallet_counts[account_id] = wallet_counts.get(account_id, 0) + len(batch.wallets[account_id])
    return ExpiredPoints(amounts, wallet_counts)


class TierCounts(NamedTuple):
    """The number of members whose tiers were evaluated, and of changes of tiers."""

    members: int
    moves: int

    @classmethod
    def sum_of(cls, batches: Iterable[EvaluatedTiers]) -> Self:
        """The numbers of all batches together."""
        members = moves = 0
        for batch in batches:
            members += batch.members
            moves += batch.moves
        return cls(members, moves)


def _evaluate_batches(engine: Engine, organization_id: int, everyone: bool = False) -> Iterator[EvaluatedTiers]:
    """Evaluate the tiers of an organization batch by batch; yield the outcome of each batch."""
    last_wallet_id = 0

    def evaluate(db: Connection, organization: Organization, now: datetime, limit: int) -> EvaluatedTiers | None:
        return evaluate_next(db, organization, last_wallet_id, now, everyone=everyone, limit=limit)

    for batch in _run_batches(engine, organization_id, evaluate):
        last_wallet_id = batch.last_wallet_id
        yield batch


def evaluate_tiers(engine: Engine, organization_id: int, everyone: bool = False) -> TierCounts:
    """Evaluate the expired tiers of one organization, or with `everyone` all tiers, in several transactions."""
    return TierCounts.sum_of(_evaluate_batches(engine, organization_id, everyone))


def _expire(run: JobRun) -> Steps[Mapping[str, Any]]:
    """Post the expiries of each organization; return the number of wallets."""

    def expire(organization_id: int) -> Iterator[int]:
        for batch in _expire_batches(run.engine, organization_id):
            yield sum(len(wallet_ids) for wallet_ids in batch.wallets.values())

    counts = yield from run.do_for(expire)
    return {"wallets": sum(counts)}


def _evaluate(run: JobRun) -> Steps[Mapping[str, Any]]:
    """Evaluate the expired tiers of each organization; return the numbers of members and of moves."""
    batches = yield from run.do_for(lambda organization_id: _evaluate_batches(run.engine, organization_id))
    return TierCounts.sum_of(batches)._asdict()


def report_expiring(engine: Engine, organization_id: int) -> Iterator[int]:
    """Report to the members of one organization which points will expire, in several transactions.

    Yields the number of events of each transaction.
    """

    def report(db: Connection, organization: Organization, now: datetime, limit: int) -> int | None:
        return report_next(db, organizations.find_details(db, organization.organization_id), now, limit)

    return _run_batches(engine, organization_id, report)


def _report_expiring(run: JobRun) -> Steps[Mapping[str, Any]]:
    """Report to the members of each organization which points will expire; return the number of events."""
    event_counts = yield from run.do_for(lambda organization_id: report_expiring(run.engine, organization_id))
    return {"events": sum(event_counts)}


def _release(run: JobRun) -> Steps[Mapping[str, Any]]:
    """Release the stored responses to old events, from the event on at which the last run ended."""
    days = run.settings.answers_kept_days
    up_to = run.last_result.get("upTo", 0)
    if not days:
        return {"answers": 0, "upTo": up_to}
    before = datetime.now(UTC) - timedelta(days=days)
    pages = yield from run.do_for(
        lambda organization_id: release_answers(run.engine, organization_id, up_to, before), real_time_only=True
    )
    released = ReleasedResponses.of(up_to, pages)
    return {"answers": released.answers, "upTo": released.up_to}


def _remove_deliveries(run: JobRun) -> Steps[Mapping[str, Any]]:
    """Remove old deliveries of each organization; return their number."""
    days = run.settings.deliveries_kept_days
    if not days:
        return {"deliveries": 0}
    counts = yield from run.do_for(
        lambda organization_id: remove_old_deliveries(run.engine, organization_id, days), real_time_only=True
    )
    return {"deliveries": sum(counts)}


def _remove_content(engine: Engine, organization_id: int, file_jobs: FileJobs[Any]) -> Iterator[None]:
    """Remove the content of imports or exports of an organization that have ended, in many short transactions."""
    while not transactions.run(engine, lambda db: file_jobs.remove_content_of_ended(db, organization_id)):
        yield


def _expire_exports(run: JobRun) -> Steps[Mapping[str, Any]]:
    """Let exports expire whose rows were kept long enough, and remove the rows of exports that have ended.

    Returns the number of exports that have expired.
    """
    expired_count = 0
    last_count = EXPORTS_AT_ONCE
    while last_count == EXPORTS_AT_ONCE:
        last_count = transactions.run(run.engine, lambda db: exports.expire(db, datetime.now(UTC), EXPORTS_AT_ONCE))
        expired_count += last_count
        yield
    yield from run.do_for(lambda organization_id: _remove_content(run.engine, organization_id, EXPORTS))
    return {"exports": expired_count}


def _remove_uploads(run: JobRun) -> Steps[Mapping[str, Any]]:
    """Fail the imports whose upload was abandoned, and remove the files of imports that have ended."""

    def clean_up(organization_id: int) -> Iterator[int]:
        def fail_abandoned(db: Connection) -> int:
            organization = organizations.find(db, organization_id)
            now = datetime.now(UTC)
            # The age of an upload is not known under a test clock.
            if organization is None or organization.clock_now is not None:
                return 0
            return imports.fail_abandoned(db, organization_id, now - MAX_UPLOAD_AGE, now, _ABANDONED)

        yield transactions.run(run.engine, fail_abandoned)
        for _ in _remove_content(run.engine, organization_id, IMPORTS):
            yield 0

    counts = yield from run.do_for(clean_up)
    return {"imports": sum(counts)}


def _finish_erasings(run: JobRun) -> Steps[Mapping[str, Any]]:
    """Erase the rows that are left of erased members; return the number of members without any rows left."""
    counts = yield from run.do_for(lambda organization_id: _run_batches(run.engine, organization_id, erase_next))
    return {"members": sum(counts)}


def _seal_batches(engine: Engine, organization_id: int) -> Iterator[int]:
    """Seal the audit log of an organization; yield the number of entries in each seal."""

    def next_seal(db: Connection) -> int:
        return audit_log.seal(db, organization_id, datetime.now(UTC), ENTRIES_IN_A_SEAL)

    last_count = ENTRIES_IN_A_SEAL
    while last_count == ENTRIES_IN_A_SEAL:
        last_count = transactions.run(engine, next_seal)
        yield last_count


def seal_audit_log(engine: Engine, organization_id: int) -> int:
    """Seal all unsealed entries of an organization's audit log, at most `ENTRIES_IN_A_SEAL` in each seal.

    Returns the number of sealed entries.
    """
    return sum(_seal_batches(engine, organization_id))


def _seal(run: JobRun) -> Steps[Mapping[str, Any]]:
    """Seal the audit log of each organization; return the number of sealed entries."""
    entry_counts = yield from run.do_for(lambda organization_id: _seal_batches(run.engine, organization_id))
    return {"entries": sum(entry_counts)}


JOBS: Sequence[Job] = (
    Job("expire", lambda settings: settings.expire_minutes, _expire),
    Job("evaluate-tiers", lambda settings: settings.evaluate_tiers_minutes, _evaluate),
    Job("report-expiring", lambda settings: _REPORT_EXPIRING_MINUTES, _report_expiring),
    Job(RELEASE_ANSWERS, lambda settings: settings.release_answers_minutes, _release),
    Job(REMOVE_DELIVERIES, lambda settings: settings.remove_deliveries_minutes, _remove_deliveries),
    Job("expire-exports", lambda settings: _EXPIRE_EXPORTS_MINUTES, _expire_exports),
    Job("remove-uploads", lambda settings: _REMOVE_UPLOADS_MINUTES, _remove_uploads),
    Job("finish-erasings", lambda settings: _FINISH_ERASINGS_MINUTES, _finish_erasings),
    Job("seal-audit-log", lambda settings: settings.seal_audit_log_minutes, _seal),
)


def add_jobs(engine: Engine, jobs: Sequence[Job] = JOBS) -> None:
    """Add the jobs that this installation has never run."""
    transactions.run(engine, lambda db: periodic_jobs.add_missing(db, [job.name for job in jobs], datetime.now(UTC)))


def run_job(engine: Engine, settings: Settings, name: str) -> Mapping[str, Any]:
    """Run a job now, even if another process is running it, and store its summary; return the summary."""
    job = next(job for job in JOBS if job.name == name)
    transactions.run(engine, lambda db: periodic_jobs.add_missing(db, [name], datetime.now(UTC)))
    last_result = transactions.run(engine, lambda db: periodic_jobs.find_last_result(db, name))
    result = advance(job.run(JobRun(engine, settings, last_result or {})), lambda: False) or {}
    transactions.run(engine, lambda db: store_end(db, name, result))
    return result
