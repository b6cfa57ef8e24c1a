"""Periodic jobs: each runs once in its interval for any number of workers, and resumes where it was interrupted."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy
from sqlalchemy import text

from handlers.server import job_runs, jobs
from handlers.server.job_runs import Job, run_due_jobs
from handlers.server.worker import Worker
from handlers.services import wallet_batches
from handlers.services.events.release_answers import ReleasedResponses, release_answers
from handlers.services.ledger.expire import expire_next
from persistence import periodic_jobs, transactions
from tests.builders.points import Points
from tests.builders.tracking import Shop, event
from tests.concurrency.simultaneous import run_simultaneously
from tests.processes.fleet import wait_until


@pytest.fixture
def shop(api):
    return Shop(api.organization())


def job_of(run, minutes=60):
    """A job of one step, which calls `run`, with an interval in minutes and a name that no other test uses."""

    def steps(context):
        result = run(context)
        yield
        return result

    return job_of_steps(steps, minutes)


def job_of_steps(steps, minutes=60):
    """A job of the steps that a generator yields, with an interval in minutes and a name that no other test uses."""
    return Job(f"job-{uuid.uuid4()}", lambda settings: minutes, steps)


def row_of(engine, job):
    """The stored row of a job."""
    with engine.connect() as db:
        return db.execute(text("SELECT * FROM periodic_jobs WHERE name = :n"), {"n": job.name}).one()


def make_due(engine, job):
    with engine.begin() as db:
        db.execute(text("UPDATE periodic_jobs SET next_run_at = now() WHERE name = :n"), {"n": job.name})


def never():
    """Do not ask a job to stop."""
    return False


def test_a_job_runs_once_per_interval_for_four_workers(api):
    runs = []

    def run(context):
        runs.append(context.last_result)
        return {"run": len(runs)}

    job = job_of(run)
    jobs.add_jobs(api.engine, [job])

    def run_as_worker():
        return run_due_jobs(api.engine, api.settings, never, [job])

    # Only one of the workers runs the job.
    assert sorted(run_simultaneously([run_as_worker] * 4)) == [False, False, False, True]
    assert runs == [{}]
    row = row_of(api.engine, job)
    assert row.last_result == {"run": 1}
    assert row.next_run_at - row.started_at == timedelta(minutes=60)
    assert row.finished_at >= row.started_at
    make_due(api.engine, job)
    assert run_as_worker()
    # The second run gets the result of the first one.
    assert runs == [{}, {"run": 1}]


def test_a_job_whose_next_run_is_more_than_two_intervals_away_runs_at_once(api):
    job = job_of(lambda context: {})
    jobs.add_jobs(api.engine, [job])
    # Two intervals are 120 minutes.
    for minutes, is_due in ((100, False), (200, True)):
        with api.engine.begin() as db:
            later = datetime.now(UTC) + timedelta(minutes=minutes)
            db.execute(text("UPDATE periodic_jobs SET next_run_at = :t WHERE name = :n"), {"t": later, "n": job.name})
        assert run_due_jobs(api.engine, api.settings, never, [job]) is is_due
    assert run_due_jobs(api.engine, api.settings, never, [job]) is False


def test_a_job_with_an_interval_of_0_never_runs(api):
    job = job_of(lambda context: pytest.fail("it ran"), minutes=0)
    jobs.add_jobs(api.engine, [job])
    assert not run_due_jobs(api.engine, api.settings, never, [job])


def test_a_worker_that_dies_at_the_end_of_a_job_stores_neither_the_end_of_the_job_nor_that_of_its_claim(
    api, monkeypatch
):
    class Death(BaseException):
        """The process ends here."""

    def die(*arguments):
        raise Death

    job = job_of(lambda context: {"run": 1})
    jobs.add_jobs(api.engine, [job])
    with monkeypatch.context() as patch:
        patch.setattr(periodic_jobs, "end_claim", die)
        with pytest.raises(Death):
            run_due_jobs(api.engine, api.settings, never, [job])
    row = row_of(api.engine, job)
    assert (row.finished_at, row.last_result) == (None, None)
    # The claim lasts for three minutes.
    assert row.next_run_at - row.started_at == timedelta(minutes=3)


def test_a_failed_job_records_its_error_and_is_due_again_after_the_interval(api):
    def run(context):
        raise RuntimeError("no such luck")

    job = job_of(run)
    jobs.add_jobs(api.engine, [job])
    assert run_due_jobs(api.engine, api.settings, never, [job])
    row = row_of(api.engine, job)
    assert (row.last_result, row.last_error) == (None, "RuntimeError")
    assert row.next_run_at > datetime.now(UTC)


def test_a_job_that_fails_for_one_organization_is_done_for_the_others(api, caplog):
    first_id, failing_id, last_id = (api.organization().id for _ in range(3))
    done_ids = []

    def work(organization_id):
        for batch in range(2):
            # The second batch of one organization fails.
            if (organization_id, batch) == (failing_id, 1):
                raise ValueError("poison")
            done_ids.append(organization_id)
            yield batch

    job = job_of_steps(lambda context: context.do_for(work))
    jobs.add_jobs(api.engine, [job])
    assert run_due_jobs(api.engine, api.settings, never, [job])
    assert [done_ids.count(organization_id) for organization_id in (first_id, failing_id, last_id)] == [2, 1, 2]
    assert f"a job failed for the organization {failing_id}" in caplog.text
    assert row_of(api.engine, job).last_error == "PartlyFailed"


@pytest.mark.slow
def test_points_of_two_organizations_expire_alternately(api, monkeypatch):
    large, small = (Shop(api.organization()) for _ in range(2))
    for shop, member_count in ((large, 4), (small, 1)):
        for _ in range(member_count):
            shop.give(shop.member(), 10)
        with api.engine.begin() as db:
            expire = text("UPDATE ledger_lots SET expires_at = now() WHERE organization_id = :id")
            db.execute(expire, {"id": shop.organization.id})
    names = {large.organization.id: "large", small.organization.id: "small"}
    batches = []

    def expire_one(db, organization, after, now, _limit):
        # Not those of other tests, which may be many.
        batch = expire_next(db, organization, after, now, limit=1) if organization.organization_id in names else None
        if batch is not None:
            batches.append(names[organization.organization_id])
        return batch

    monkeypatch.setattr(jobs, "expire_next", expire_one)
    assert jobs.run_job(api.engine, api.settings, "expire")["wallets"] == 5
    assert batches == ["large", "small", "large", "large", "large"]
    for shop, expired_amount in ((large, 40), (small, 10)):
        assert shop.rows("ledger_lots", "sum(remaining), sum(expired)") == [(0, expired_amount)]


def test_a_due_job_runs_while_another_has_work_without_end(api, monkeypatch):
    monkeypatch.setattr(job_runs, "_SLICE_SECONDS", 0)
    # For each step of the endless job, how often the short job had run before.
    steps, summaries = [], []

    def work_without_end(context):
        while True:
            steps.append(len(summaries))
            if len(steps) == 3:
                make_due(api.engine, short)
            yield

    def run(context):
        summaries.append("done")
        return {}

    endless, short = job_of_steps(work_without_end), job_of(run)
    # The endless job is due first.
    for job in (endless, short):
        jobs.add_jobs(api.engine, [job])
    assert run_due_jobs(api.engine, api.settings, lambda: len(steps) == 6, [endless, short])
    # The short job ran after the first step and again after the third one, and the endless one continued.
    assert steps == [0, 1, 1, 2, 2, 2]
    assert row_of(api.engine, short).last_result == {}
    assert row_of(api.engine, endless).last_result is None


@pytest.mark.slow
def test_an_organization_gets_new_work_done_while_another_has_work_without_end(api, monkeypatch):
    monkeypatch.setattr(job_runs, "_SLICE_SECONDS", 0)
    large, small = (api.organization().id for _ in range(2))
    done_ids = []

    def work(organization_id):
        while organization_id == large:
            done_ids.append(large)
            if done_ids.count(large) == 3:
                make_due(api.engine, job)
            yield
        if organization_id == small:
            done_ids.append(small)
            yield

    job = job_of_steps(lambda context: context.do_for(work))
    jobs.add_jobs(api.engine, [job])
    assert run_due_jobs(api.engine, api.settings, lambda: done_ids.count(large) == 6, [job])
    # All organizations are asked for work again when the job is due again, after the third batch.
    assert done_ids == [large, small, large, large, large, small, large, large]


def claim(engine, job, now):
    """Claim a job as a worker does at a moment; returns the claim, or None if the job is not due."""
    intervals = {job.name: timedelta(minutes=60)}
    return transactions.run(engine, lambda db: periodic_jobs.claim(db, intervals, now))


def test_the_job_of_a_crashed_worker_is_due_after_three_minutes(api):
    job = job_of(lambda context: {})
    jobs.add_jobs(api.engine, [job])
    now = datetime.now(UTC)
    # A worker that crashes while it runs the job never ends its claim.
    assert claim(api.engine, job, now).name == job.name
    assert claim(api.engine, job, now + timedelta(minutes=2)) is None
    assert claim(api.engine, job, now + timedelta(minutes=3)).name == job.name


def test_a_worker_renews_its_claim_of_a_job_with_much_work(api, monkeypatch):
    monkeypatch.setattr(job_runs, "_SLICE_SECONDS", 0)
    claimed_minutes = []

    def run(context):
        for _ in range(3):
            claimed_minutes.append(
                round((row_of(api.engine, job).next_run_at - datetime.now(UTC)).total_seconds() / 60)
            )
            with api.engine.begin() as db:
                values = {"t": datetime.now(UTC) + timedelta(minutes=1), "n": job.name}
                db.execute(text("UPDATE periodic_jobs SET next_run_at = :t WHERE name = :n"), values)
            yield
        return {}

    job = job_of_steps(run)
    jobs.add_jobs(api.engine, [job])
    assert run_due_jobs(api.engine, api.settings, never, [job])
    assert claimed_minutes == [3, 3, 3]
    row = row_of(api.engine, job)
    assert row.next_run_at - row.started_at == timedelta(minutes=60)


def test_a_worker_does_not_change_the_claim_of_another_one(api, monkeypatch):
    monkeypatch.setattr(job_runs, "_SLICE_SECONDS", 0)
    claims = []

    def run(context):
        # The other worker has found the job due, for example because this one was suspended.
        now = datetime.now(UTC)
        make_due(api.engine, job)
        claims.append(claim(api.engine, job, now + timedelta(minutes=1)).started_at)
        yield
        return {}

    job = job_of_steps(run)
    jobs.add_jobs(api.engine, [job])
    assert run_due_jobs(api.engine, api.settings, never, [job])
    row = row_of(api.engine, job)
    assert (row.started_at, row.next_run_at) == (claims[0], claims[0] + timedelta(minutes=3))


def test_an_interrupted_job_is_due_at_once_when_the_worker_stops(api):
    steps = []

    def run(context):
        while True:
            steps.append(1)
            yield

    job = job_of_steps(run)
    jobs.add_jobs(api.engine, [job])
    assert run_due_jobs(api.engine, api.settings, lambda: len(steps) == 2, [job])
    row = row_of(api.engine, job)
    assert row.next_run_at <= datetime.now(UTC)
    assert (row.finished_at, row.last_result) == (None, None)


@pytest.mark.slow
def test_every_job_runs_without_an_error(api, shop):
    shop.track(event(shop.member()))
    for job in jobs.JOBS:
        assert jobs.run_job(api.engine, api.settings, job.name)
        assert row_of(api.engine, job).last_error is None


class TestReleasingAnswers:
    def track_old(self, shop, member, days):
        """Track an event as if `days` days ago; returns its body and its key."""
        body = event(member)
        [result] = shop.track(body)
        with shop.organization.api.engine.begin() as db:
            db.execute(
                text("UPDATE events SET created_at = now() - make_interval(days => :d) WHERE system_unique_key = :k"),
                {"d": days, "k": body["systemUniqueKey"]},
            )
        return body, result["loyaltyEventKey"]

    def release(self, shop, after=0):
        """Remove the responses of events that are older than 400 days and have ids above `after`."""
        before = datetime.now(UTC) - timedelta(days=400)
        return ReleasedResponses.of(
            after, [*release_answers(shop.organization.api.engine, shop.organization.id, after, before)]
        )

    def test_the_result_of_an_old_event_is_removed_and_its_event_and_key_stay(self, shop):
        member = shop.member()
        self.track_old(shop, member, days=500)
        # A release ends at the first event that is too new: the enrolment, which has the first id, has to be old, too.
        with shop.organization.api.engine.begin() as db:
            db.execute(
                text(
                    "UPDATE events SET created_at = now() - interval '501 days' WHERE organization_id = :o"
                    " AND event_type = 'member-created'"
                ),
                {"o": shop.organization.id},
            )
        old_event, old_key = self.track_old(shop, member, days=401)
        new_event, new_key = self.track_old(shop, member, days=399)
        first_release = self.release(shop)
        # The enrolment and the events of 500 and 401 days ago.
        assert first_release.answers == 3
        assert "result" not in shop.integration.get(f"/events/{old_key}")
        assert shop.integration.get(f"/events/{old_key}")["event"]["status"] == "success"
        assert shop.integration.get(f"/events/{new_key}")["result"]["loyaltyEventKey"] == new_key
        assert shop.expect_refusal(old_event) == "/problems/key-reused"
        assert shop.track_one(new_event)["loyaltyEventKey"] == new_key
        second_release = self.release(shop, after=first_release.up_to)
        assert (second_release.answers, second_release.up_to) == (0, first_release.up_to)

    def test_a_release_continues_after_the_events_of_the_last_one(self, shop):
        member = shop.member()
        first_release = self.release(shop)
        assert first_release.answers == 0
        with shop.organization.api.engine.begin() as db:
            db.execute(
                text("UPDATE events SET created_at = now() - interval '600 days' WHERE organization_id = :o"),
                {"o": shop.organization.id},
            )
        self.track_old(shop, member, days=500)
        second_release = self.release(shop, after=first_release.up_to)
        # The enrolment and the event.
        assert second_release.answers == 2
        assert self.release(shop, after=second_release.up_to).answers == 0

    def test_no_result_is_removed_if_results_are_kept_for_ever(self, api):
        settings = replace(api.settings, answers_kept_days=0)
        assert jobs.run_job(api.engine, settings, jobs.RELEASE_ANSWERS)["answers"] == 0


@pytest.mark.slow
def test_a_worker_waits_while_the_database_is_read_only(settings, caplog):
    worker = Worker(settings)
    sqlalchemy.event.listen(worker._engine, "begin", lambda db: db.exec_driver_sql("SET TRANSACTION READ ONLY"))
    thread = threading.Thread(target=worker.run)
    thread.start()
    wait_until(lambda: "the loop of jobs waits for the database: InternalError" in caplog.text)
    worker.stop()
    thread.join()
    assert {record.levelname for record in caplog.records} == {"WARNING"}


@pytest.mark.parametrize(
    ("limit", "seconds", "next_limit"),
    [
        # Fast transactions grow to 500 wallets.
        (50, 0.1, 100),
        (400, 0.1, 500),
        (50, 0.0, 100),
        # Slow ones shrink until they take a second.
        (50, 2.0, 25),
        (500, 17.0, 29),
        (1, 60.0, 1),
    ],
)
def test_a_transaction_has_as_many_wallets_as_fit_into_a_second(limit, seconds, next_limit):
    assert wallet_batches.next_limit(limit, seconds) == next_limit


def test_transactions_of_an_organization_shrink_if_they_are_slow(api, shop, monkeypatch):
    monkeypatch.setattr(wallet_batches, "TRANSACTION_SECONDS", 0.0001)
    monkeypatch.setattr(wallet_batches, "FIRST_WALLETS", 4)
    points = Points.new(shop.organization, expiresInMonths=1)
    earlier = datetime.now(UTC) - timedelta(hours=1)
    for _ in range(6):
        points.mint(points.wallet(), 5, expires_at=earlier)
    organization_id, account_id = shop.organization.id, points.account_id
    batches = list(jobs._expire_batches(api.engine, organization_id))
    # The first transaction took longer than a tenth of a millisecond, so each of the next ones has one wallet.
    assert [len(batch.wallets[account_id]) for batch in batches] == [4, 1, 1]
