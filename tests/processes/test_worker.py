"""`loyalty worker` as an operator runs it, by itself and next to `loyalty serve`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg2
import pytest

from handlers.server.jobs import JOBS
from persistence import embedded
from tests.processes.loyalty import Server, environment, loyalty, status


@pytest.fixture
def start(home):
    """Starts processes of the command; kills the ones that still run when the test ends."""
    started = []

    def run(*arguments: str, **variables: str) -> subprocess.Popen:
        log = (home.parent / f"process-{len(started)}.log").open("w")
        command = [sys.executable, "-m", "handlers", *arguments]
        started.append(subprocess.Popen(command, env=environment(home, **variables), cwd=home.parent, stderr=log))
        return started[-1]

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def eventually(question):
    deadline = time.monotonic() + 120
    while not (answer := question()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return answer


def workers_of(parent: int) -> list[int]:
    """The process ids of workers that a server has started."""
    process_ids = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            words = (directory / "cmdline").read_bytes().split(b"\0")
            owner = int(re.search(r"PPid:\s*(\d+)", (directory / "status").read_text()).group(1))
        except OSError:
            continue
        if b"--attached" in words and owner == parent:
            process_ids.append(int(directory.name))
    return process_ids


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def jobs_run(url: str) -> int:
    with psycopg2.connect(url) as db, db.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM periodic_jobs WHERE finished_at IS NOT NULL AND last_error IS NULL")
        return cursor.fetchone()[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_worker_runs_the_jobs_until_it_is_stopped(home, start, number):
    with embedded.server(home, options={"fsync": "off"}) as url:
        process = start("worker")
        eventually(lambda: jobs_run(url) == len(JOBS))
        process.send_signal(number)
        assert process.wait(60) == 0


def test_a_worker_that_does_what_is_due_ends(home):
    with embedded.server(home, options={"fsync": "off"}) as url:
        completed = loyalty(home, "worker", "--once", LOYALTY_EXPIRE_MINUTES="0", LOYALTY_LOG_FORMAT="text")
        assert completed.returncode == 0, completed.stderr
        assert jobs_run(url) == len(JOBS) - 1
        assert "the job evaluate-tiers is done: {'members': 0, 'moves': 0}" in completed.stderr
        again = loyalty(home, "release-answers")
        assert (again.returncode, again.stdout) == (0, "Nothing to release.\n"), again.stderr


def test_a_worker_refuses_a_database_that_lacks_migrations(new_home):
    with embedded.server(new_home, options={"fsync": "off"}):
        completed = loyalty(new_home, "worker")
        assert completed.returncode == 1
        assert "run `loyalty migrate` first" in completed.stderr
        assert "Traceback" not in completed.stderr


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
class TestServe:
    @pytest.fixture
    def server(self, home):
        servers = []

        def serve(*arguments):
            servers.append(Server(home, "--workers", "1", *arguments))
            servers[-1].greeting()
            return servers[-1]

        yield serve
        for server in servers:
            if server.process.poll() is None:
                os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait()
            server.process.stdout.close()

    def test_it_has_a_worker_of_its_own_which_is_replaced_and_ends_with_it(self, home, server):
        running = server()
        [first] = eventually(lambda: workers_of(running.process.pid))
        os.kill(first, signal.SIGKILL)
        [second] = eventually(lambda: [pid for pid in workers_of(running.process.pid) if pid != first])
        assert status(f"{running.url}/health/ready") == 200
        assert running.stop() == 0
        assert not is_running(second)
        assert not embedded.describe(home).is_running

    def test_its_worker_ends_even_if_it_is_killed(self, server):
        running = server()
        [worker] = eventually(lambda: workers_of(running.process.pid))
        [answering] = running.workers()
        running.process.kill()
        running.process.wait()
        eventually(lambda: not is_running(worker))
        eventually(lambda: not is_running(answering))

    def test_it_has_none_if_told_so(self, server):
        running = server("--no-worker")
        time.sleep(2)
        assert workers_of(running.process.pid) == []
        assert running.stop() == 0
