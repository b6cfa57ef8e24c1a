"""`loyalty worker` as a separate process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psycopg2
import pytest

from handlers.server.jobs import JOBS
from persistence import embedded
from tests.processes.loyalty import environment, invoke, loyalty


@pytest.fixture
def start(home):
    """A function that starts commands; processes that still run at the end of the test are killed."""
    processes = []

    def start_command(*arguments: str, **variables: str) -> subprocess.Popen:
        log = (home.parent / f"process-{len(processes)}.log").open("w")
        command = [sys.executable, "-m", "handlers", *arguments]
        processes.append(subprocess.Popen(command, env=environment(home, **variables), cwd=home.parent, stderr=log))
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
def test_a_worker_runs_the_jobs_until_it_is_stopped(home, start, stop_signal):
    with embedded.server(home, options={"fsync": "off"}) as url:
        process = start("worker")
        wait_until(lambda: count_finished_jobs(url) == len(JOBS))
        process.send_signal(stop_signal)
        assert process.wait(60) == 0


def test_a_worker_that_runs_once_executes_the_due_jobs_and_ends(home):
    with embedded.server(home, options={"fsync": "off"}) as url:
        result = loyalty(home, "worker", "--once", LOYALTY_EXPIRE_MINUTES="0", LOYALTY_LOG_FORMAT="text")
        assert result.returncode == 0, result.stderr
        # All jobs except that of expiries, which the setting 0 switches off.
        assert count_finished_jobs(url) == len(JOBS) - 1
        assert "the job evaluate-tiers is done: {'members': 0, 'moves': 0}" in result.stderr
        repetition = invoke(home, "release-answers")
        assert (repetition.returncode, repetition.stdout) == (0, "Nothing to release.\n"), repetition.stderr


def test_a_worker_refuses_a_database_that_lacks_migrations(new_home):
    with embedded.server(new_home, options={"fsync": "off"}):
        result = loyalty(new_home, "worker")
        assert result.returncode == 1
        assert "run `loyalty migrate` first" in result.stderr
        assert "Traceback" not in result.stderr
