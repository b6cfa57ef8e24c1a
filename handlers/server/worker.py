"""The worker, with a loop in its own thread for each kind of work, such as queued events, deliveries and jobs.

Any number of workers may run at the same time, on any number of machines; they skip the work that another worker has
claimed.
"""

import logging
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Engine

from handlers import tracing
from handlers.server.garbage import collect_rarely
from handlers.server.job_runs import run_due_jobs
from handlers.server.jobs import JOBS, add_jobs
from handlers.services.events.drain_queue import Drain
from handlers.services.exports.write import MAX_OPEN_EXPORTS, ExportWriter
from handlers.services.imports.work import Importer
from handlers.services.ledger.extend_expiry import extend_running
from handlers.services.organizations.test_clock import advance_clocks
from handlers.services.report_totals import ReportTotals
from handlers.services.unit_of_work.deadlines import limit_evaluation
from handlers.services.webhooks.send_deliveries import send_due
from handlers.settings import Settings
from persistence.engine import create_engine
from persistence.transactions import is_unavailable

# The intervals of jobs are minutes.
_JOBS_SECONDS = 5.0
# Reports read changes that are not in their totals yet one by one, so changes may wait for some seconds.
_REPORTS_SECONDS = 2.0
# Imports, exports, advances of clocks and extensions take minutes.
_LONG_WORK_SECONDS = 1.0
# A row that a call of one organization has locked must not delay the work for the others: it is left for later.
_LOCK_MS = 200
# The pauses while the database is unavailable, or another fault affects all work.
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.5, 30.0

_log = logging.getLogger("loyalty.worker")


@dataclass(frozen=True, slots=True)
class Loop:
    """A repeated task: `step` does a part of it and returns True if there may be more to do.

    If there is not, the next step follows after `seconds`.
    """

    name: str
    seconds: float
    step: Callable[[], bool]


class Worker:
    """All loops of one process, until `stop` is called."""

    def __init__(self, settings: Settings) -> None:
        self._stopped = threading.Event()
        tracing.start(settings)
        limit_evaluation(settings)
        self._engine = create_engine(
            settings.database_url,
            # One connection for each loop, one for the snapshot of each export, one to begin a step of an import.
            threads=len(_LOOPS) + MAX_OPEN_EXPORTS + 1,
            statement_timeout_ms=settings.statement_timeout_ms,
            lock_timeout_ms=_LOCK_MS,
            application_name="loyalty-worker",
        )
        queue_seconds = settings.queue_poll_ms / 1000
        self._loops: Sequence[Loop] = [
            Loop(name, queue_seconds if pause is None else pause, make(self._engine, settings, self._stopped.is_set))
            for name, pause, make in _LOOPS
        ]

    def stop(self) -> None:
        """Let each loop end after its current step."""
        self._stopped.set()

    def stop_at_signals(self) -> None:
        """Let SIGTERM and SIGINT stop the worker."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())

    def run(self) -> None:
        """Work until stopped."""
        collect_rarely()
        threads = [threading.Thread(target=self._repeat, args=(loop,), name=loop.name) for loop in self._loops]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._engine.dispose()

    def run_once(self) -> None:
        """Do all work that is due now, then end."""
        for loop in self._loops:
            while not self._stopped.is_set() and loop.step():
                pass
        self._engine.dispose()

    def _repeat(self, loop: Loop) -> None:
        """Repeat the steps of a loop until stopped, with growing pauses after failures."""
        pause = _FIRST_PAUSE_SECONDS
        while not self._stopped.is_set():
            try:
                has_more = loop.step()
            except Exception as error:
                # The steps handle the failure of a single event, message or row. This failure concerns all of them.
                if is_unavailable(error):
                    _log.warning("the loop of %s waits for the database: %s", loop.name, type(error).__name__)
                else:
                    _log.error("the loop of %s failed", loop.name, exc_info=error)
                self._stopped.wait(pause)
                pause = min(2 * pause, _MAX_PAUSE_SECONDS)
            else:
                pause = _FIRST_PAUSE_SECONDS
                if not has_more:
                    self._stopped.wait(loop.seconds)


def _jobs(engine: Engine, settings: Settings, is_stopping: Callable[[], bool]) -> Callable[[], bool]:
    """The step of the jobs, which adds missing jobs in its first run, when the database is available."""
    has_added_jobs = False

    def step() -> bool:
        nonlocal has_added_jobs
        if not has_added_jobs:
            add_jobs(engine)
            has_added_jobs = True
        return run_due_jobs(engine, settings, is_stopping, JOBS)

    return step


def _deliveries(engine: Engine, settings: Settings, is_stopping: Callable[[], bool]) -> Callable[[], bool]:
    """The step of the deliveries, which sends all that are due."""

    def step() -> bool:
        send_due(engine, settings, is_stopping)
        return False

    return step


def _exports(engine: Engine, settings: Settings, is_stopping: Callable[[], bool]) -> Callable[[], bool]:
    """The step of the exports, which writes a part of one."""
    return ExportWriter(engine, settings, is_stopping).step


def _clocks(engine: Engine, settings: Settings, is_stopping: Callable[[], bool]) -> Callable[[], bool]:
    """The step of the test clocks, which advances all that are not done."""
    return partial(advance_clocks, engine, settings, is_stopping)


def _extensions(engine: Engine, _settings: Settings, _is_stopping: Callable[[], bool]) -> Callable[[], bool]:
    """The step of the extensions of expiries, which does the next part of one."""
    return partial(extend_running, engine)


# Each loop: its name, its pause in seconds (None: `queue_poll_ms`), and the function that makes its step.
_LOOPS: Sequence[tuple[str, float | None, Callable[[Engine, Settings, Callable[[], bool]], Callable[[], bool]]]] = (
    ("queue", None, lambda engine, settings, is_stopping: Drain(engine, settings, is_stopping).step),
    ("deliveries", None, _deliveries),
    ("jobs", _JOBS_SECONDS, _jobs),
    ("reports", _REPORTS_SECONDS, lambda engine, _, is_stopping: ReportTotals(engine, is_stopping).step),
    ("imports", _LONG_WORK_SECONDS, lambda engine, settings, _: Importer(engine, settings).step),
    ("exports", _LONG_WORK_SECONDS, _exports),
    ("clocks", _LONG_WORK_SECONDS, _clocks),
    ("extensions", _LONG_WORK_SECONDS, _extensions),
)
