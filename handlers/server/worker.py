"""The worker: queued events, messages, periodic jobs, totals, imports, exports, test clocks: each a loop and thread.

Any number of workers may run at the same time, on any number of machines; they skip the work that another worker has
claimed.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from handlers import tracing
from handlers.server.garbage import collect_rarely
from handlers.server.jobs import add_jobs, run_due_job
from handlers.services.events.drain_queue import Drain
from handlers.services.exports.write import ExportWriter
from handlers.services.imports.work import Importer
from handlers.services.ledger.extend_expiry import extend_running
from handlers.services.organizations.test_clock import advance_clocks
from handlers.services.unit_of_work.evaluation import limit_evaluation
from handlers.services.webhooks.send_deliveries import send_due
from handlers.settings import Settings
from persistence import transactions
from persistence.engine import create_engine
from persistence.reports.totals import CHANGES_AT_ONCE, move_changes
from persistence.transactions import is_unavailable

# Jobs come round in minutes.
_JOBS_SECONDS = 5.0
# Reports count what is not in their totals one by one, so some seconds of it may wait.
_REPORTS_SECONDS = 2.0
# Imports, exports, advances of clocks and extensions take minutes.
_LONG_WORK_SECONDS = 1.0
# The pause while the database is away, or another fault affects all work.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0

_log = logging.getLogger("loyalty.worker")


@dataclass(frozen=True, slots=True)
class Loop:
    """A repeated task: `step` does a bounded piece of it and returns True if there may be more.

    If there is no more, the next step is after `seconds`.
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
            # One each, and others for the snapshot of an export, and for the beginning of an import's step.
            threads=len(_LOOPS) + 2,
            statement_timeout_ms=settings.statement_timeout_ms,
            lock_timeout_ms=settings.lock_timeout_ms,
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
        pause = _FIRST_PAUSE_SECONDS
        while not self._stopped.is_set():
            try:
                has_more = loop.step()
            except Exception as error:
                # Single pieces of work handle their own faults, so this is a fault of the database, or of all work.
                if is_unavailable(error):
                    _log.warning("the loop of %s waits for the database: %s", loop.name, type(error).__name__)
                else:
                    _log.error("the loop of %s failed", loop.name, exc_info=error)
                self._stopped.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            else:
                pause = _FIRST_PAUSE_SECONDS
                if not has_more:
                    self._stopped.wait(loop.seconds)


def _jobs(engine: Engine, settings: Settings, stopping: Callable[[], bool]) -> Callable[[], bool]:
    has_added_jobs = False

    def step() -> bool:
        nonlocal has_added_jobs
        if not has_added_jobs:
            add_jobs(engine)
            has_added_jobs = True
        return run_due_job(engine, settings, stopping)

    return step


def _deliveries(engine: Engine, settings: Settings, stopping: Callable[[], bool]) -> Callable[[], bool]:
    def step() -> bool:
        send_due(engine, settings, stopping)
        return False

    return step


# Each loop: its name, its pause in seconds (None: `queue_poll_ms`), and the function that makes its step.
_LOOPS: Sequence[tuple[str, float | None, Callable[[Engine, Settings, Callable[[], bool]], Callable[[], bool]]]] = (
    ("queue", None, lambda engine, settings, stopping: Drain(engine, settings, stopping).step),
    ("deliveries", None, _deliveries),
    ("jobs", _JOBS_SECONDS, _jobs),
    ("reports", _REPORTS_SECONDS, lambda engine, *_: lambda: transactions.run(engine, move_changes) >= CHANGES_AT_ONCE),
    ("imports", _LONG_WORK_SECONDS, lambda engine, settings, _: Importer(engine, settings).step),
    ("exports", _LONG_WORK_SECONDS, lambda engine, _, stopping: ExportWriter(engine, stopping).step),
    ("clocks", _LONG_WORK_SECONDS, lambda *context: lambda: advance_clocks(*context)),
    ("extensions", _LONG_WORK_SECONDS, lambda engine, *_: lambda: extend_running(engine)),
)
