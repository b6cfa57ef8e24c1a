"""`loyalty worker` as a separate process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import closing

import psycopg2
import pytest

from handlers.server.jobs import JOBS
from persistence import embedded
from tests.processes.loyalty import environment, invoke, loyalty


@pytest.fixture(scope="module")
def running_database(shared_home):
    """The URL of the database of the shared home, which runs for all tests."""
    with embedded.server(shared_home, options={"fsync": "off"}) as url:
        yield url


@pytest.fixture
def url(running_database):
    """The URL of the database, in which no job has run yet."""
    with closing(psycopg2.connect(running_database)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM periodic_jobs")
    return running_database


@pytest.fixture
def start(shared_home, tmp_path):
    """A function that starts commands; processes that still run at the end of the test are killed."""
    processes = []

    def start_command(*arguments: str, **variables: str) -> subprocess.Popen:
        log = (tmp_path / f"process-{len(processes)}.log").open("w")
        command = [sys.executable, "-m", "handlers", *arguments]
        env = environment(shared_home, **variables)
        processes.append(subprocess.Popen(command, env=env, cwd=shared_home.parent, stderr=log))
        return processes[-1]

    yield start_command
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()


def wait_until(condition):
    """Wait until a condition is true; fail after two minutes."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def count_finished_jobs(url: str) -> int:
    """The number of jobs that have run without an error."""
    with psycopg2.connect(url) as db, db.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM periodic_jobs WHERE finished_at IS NOT NULL AND last_error IS NULL")
        return cursor.fetchone()[0]


@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGINT], ids=lambda stop_signal: stop_signal.name)
def test_a_worker_runs_the_jobs_until_it_is_stopped(url, start, stop_signal):
    process = start("worker")
    wait_until(lambda: count_finished_jobs(url) == len(JOBS))
    process.send_signal(stop_signal)
    assert process.wait(60) == 0


def test_a_worker_that_runs_once_executes_the_due_jobs_and_ends(shared_home, url):
    result = loyalty(shared_home, "worker", "--once", LOYALTY_EXPIRE_MINUTES="0", LOYALTY_LOG_FORMAT="text")
    assert result.returncode == 0, result.stderr
    # All jobs except that of expiries, which the setting 0 switches off.
    assert count_finished_jobs(url) == len(JOBS) - 1
    assert "the job evaluate-tiers is done: {'members': 0, 'moves': 0}" in result.stderr
    repetition = invoke(shared_home, "release-answers")
    assert (repetition.returncode, repetition.stdout) == (0, "Nothing to release.\n"), repetition.stderr


def test_a_worker_refuses_a_database_that_lacks_migrations(shared_home, running_database):
    with closing(psycopg2.connect(running_database)) as connection:
        connection.autocommit = True
        connection.cursor().execute("CREATE DATABASE empty")
    result = invoke(shared_home, "worker", LOYALTY_DATABASE_URL=running_database.replace("/loyalty?", "/empty?"))
    assert result.returncode == 1
    assert "run `loyalty migrate` first" in result.stderr
