"""Workers that are killed and replaced, a database that is killed, and waits and retries."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from handlers.services.verify import verify
from persistence import embedded, organizations
from tests.processes.loyalty import environment

WAITING = "SELECT count(*) FROM queued_events"


class Workers:
    """Several processes of `loyalty worker`."""

    def __init__(self, home: Path, count: int, **variables: str) -> None:
        self._home = home
        self._variables = {
            "LOYALTY_QUEUE_BATCH": "50",
            "LOYALTY_LOG_LEVEL": "warning",
            "LOYALTY_QUEUE_RETRY_MS": "50",
            **variables,
        }
        self._log = (home.parent / "workers.log").open("w")
        self._processes = [self._start() for _ in range(count)]

    def _start(self) -> subprocess.Popen:
        command = [sys.executable, "-m", "handlers", "worker"]
        return subprocess.Popen(command, env=environment(self._home, **self._variables), stderr=self._log)

    def kill_one(self, pick: random.Random) -> None:
        """Kill a random worker, and start another one."""
        index = pick.randrange(len(self._processes))
        self._processes[index].kill()
        self._processes[index].wait()
        self._processes[index] = self._start()

    def stop(self) -> list[int]:
        """Ask all workers to stop, and wait; return their exit codes."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        return [process.wait(120) for process in self._processes]

    def kill(self) -> None:
        """Kill all workers that still run."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self._log.close()


def database_pid(home: Path) -> int:
    """The process id of the database server of a home."""
    return int((embedded.describe(home).data / "postmaster.pid").read_text().splitlines()[0])


def kill_database(home: Path, by: signal.Signals = signal.SIGKILL) -> None:
    """Kill the database server; with SIGQUIT it still removes its files and its shared memory."""
    os.kill(database_pid(home), by)


def children_of(pid: int) -> set[int]:
    """The processes that a process has started and that still run."""
    return {int(child_pid) for child_pid in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


@contextmanager
def silent_database(home: Path) -> Iterator[None]:
    """Stop all processes of the database; the kernel still accepts connections for it."""
    server = database_pid(home)
    processes = [server, *children_of(server)]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def patiently(work: Callable[[], Any], patience: float = 120) -> Any:
    """The result of the work, which is repeated for up to `patience` seconds while the database is unavailable."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return work()
        except DBAPIError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def fetch_value(engine: Engine, statement: str) -> Any:
    """The only value that a query returns, with retries while the database is unavailable."""

    def ask() -> Any:
        with engine.connect() as db:
            return db.execute(text(statement)).scalar_one()

    return patiently(ask)


def wait_until(question: Callable[[], Any], patience: float = 600) -> None:
    """Repeat the question until its result is true; fail after `patience` seconds."""
    deadline = time.monotonic() + patience
    while not question():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def verify_all(db: Connection) -> list[str]:
    """The violations that `verify` reports of all organizations."""
    return [
        violation
        for organization in organizations.find_all(db)
        for violation in verify(db, organization.organization_id)
    ]


@contextmanager
def disposed(engine: Engine) -> Iterator[Engine]:
    """The engine, whose connections are closed at the end of the block."""
    try:
        yield engine
    finally:
        engine.dispose()
