"""The processor time that a load takes of the server and of PostgreSQL: unlike its duration it depends on no disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import psutil
from sqlalchemy import Engine, text

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class ProcessorTime:
    """Seconds of processor time of the server and of PostgreSQL."""

    server: float
    database: float

    def columns(self, calls: float) -> str:
        """The two columns of a table: milliseconds for each of so many calls."""
        return f"{self.server * 1000 / max(1.0, calls):.2f} | {self.database * 1000 / max(1.0, calls):.2f}"


class ProcessorTimes:
    """Measures the server, which is what this process has started, and the PostgreSQL of a database.

    With `includes_self`, this process counts as a part of the server, because it does the server's work itself.
    """

    def __init__(self, engine: Engine, includes_self: bool = False) -> None:
        self._includes_self = includes_self
        with engine.connect() as db:
            backend = db.execute(text("SELECT pg_backend_pid()")).scalar_one()
        self._postmaster = psutil.Process(backend).parent()

    def measure(self, run: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> tuple[R, ProcessorTime]:
        """Call `run`; return its result and the processor time that went by meanwhile."""
        server, database = self._seconds()
        result = run(*args, **kwargs)
        server_after, database_after = self._seconds()
        return result, ProcessorTime(server_after - server, database_after - database)

    def _seconds(self) -> tuple[float, float]:
        times = self._postmaster.cpu_times()
        # Sessions that have ended count as children of the postmaster.
        database = times.user + times.system + times.children_user + times.children_system
        process_seconds = time.process_time() if self._includes_self else 0.0
        return process_seconds + _seconds_below(psutil.Process()), database + _seconds_below(self._postmaster)


def _seconds_below(root: psutil.Process) -> float:
    """The processor time of all processes below a process, without its own."""
    total = 0.0
    for process in root.children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
