"""Periodic jobs: the times at which they are due, and claims by workers."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from persistence.tables.triggers import periodic_jobs

# A claim lasts so long, unless the worker renews it: a job of a crashed worker is then due.
_LEASE = timedelta(minutes=3)


class ClaimedJob(NamedTuple):
    """A claimed job; `last_result` is that of its last complete run, None before the first one."""

    name: str
    last_result: Mapping[str, Any] | None
    started_at: datetime


def add_missing(db: Connection, names: Collection[str], now: datetime) -> None:
    """Add jobs that have never run, due at once."""
    rows = [{"name": name, "next_run_at": now} for name in sorted(names)]
    if rows:
        db.execute(insert(periodic_jobs).on_conflict_do_nothing(), rows)


def claim(db: Connection, intervals: Mapping[str, timedelta], now: datetime) -> ClaimedJob | None:
    """Claim the job of `intervals` that has been due the longest; it is due again after its interval.

    None if no job is due, or another worker is claiming it. The worker renews its claim while it runs the job.
    """
    # A time far ahead was stored by a wrong clock, or for an interval that is shorter now: the job is due. Twice the
    # interval, because the clocks of several machines may differ.
    far_ahead = [
        and_(periodic_jobs.c.name == name, periodic_jobs.c.next_run_at > now + 2 * interval)
        for name, interval in intervals.items()
    ]
    row = db.execute(
        select(periodic_jobs.c.name, periodic_jobs.c.last_result)
        .where(periodic_jobs.c.name.in_(intervals), or_(periodic_jobs.c.next_run_at <= now, *far_ahead))
        .order_by(periodic_jobs.c.next_run_at, periodic_jobs.c.name)
        .limit(1)
        .with_for_update(skip_locked=True)
    ).one_or_none()
    if row is None:
        return None
    values = {"next_run_at": _end_of_claim(now, intervals[row.name], now), "started_at": now, "finished_at": None}
    store(db, row.name, **values)
    return ClaimedJob(row.name, row.last_result, now)


def renew(db: Connection, name: str, started_at: datetime, interval: timedelta, now: datetime) -> None:
    """Renew the claim of a running job, unless the job is due or another worker has claimed it since."""
    _store_claimed(db, name, started_at, now, _end_of_claim(started_at, interval, now))


def end_claim(db: Connection, name: str, started_at: datetime, interval: timedelta, now: datetime) -> None:
    """Make a job due after its interval, unless it is due or another worker has claimed it since."""
    _store_claimed(db, name, started_at, now, started_at + interval)


def _end_of_claim(started_at: datetime, interval: timedelta, now: datetime) -> datetime:
    """The moment at which the lease ends, or the job is due by its interval, whichever is earlier."""
    return min(started_at + interval, now + _LEASE)


def _store_claimed(db: Connection, name: str, started_at: datetime, now: datetime, next_run_at: datetime) -> None:
    """Store the time of the next run of a job if the claim that began at `started_at` still holds at `now`."""
    is_claimed = and_(
        periodic_jobs.c.name == name, periodic_jobs.c.started_at == started_at, periodic_jobs.c.next_run_at > now
    )
    db.execute(update(periodic_jobs).where(is_claimed).values(next_run_at=next_run_at))


def store(db: Connection, name: str, **values: Any) -> None:
    """Store columns of a job: the result or the error of its last run, or the time of its next run."""
    db.execute(update(periodic_jobs).where(periodic_jobs.c.name == name).values(**values))


def find_last_result(db: Connection, name: str) -> Mapping[str, Any] | None:
    """The result of the last complete run of a job; None if it has never run."""
    return db.execute(select(periodic_jobs.c.last_result).where(periodic_jobs.c.name == name)).scalar_one_or_none()
