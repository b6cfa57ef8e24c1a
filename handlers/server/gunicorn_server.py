"""The HTTP server in production: gunicorn with its own ASGI worker, configured only by the settings."""

import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.sock import close_sockets
from sqlalchemy import Engine

from handlers.server.garbage import collect_rarely
from handlers.server.loading import loading
from handlers.setting_values import host_in_url
from handlers.settings import Settings
from persistence import embedded

# A thread that computes for long, such as a dry run, lets other threads run after this time.
_SWITCH_SECONDS = 0.0005
# When a worker stops, it waits this long for idle connections, too.
_KEEP_ALIVE_SECONDS = 5
_GRACEFUL_SECONDS = 15
# The maximum that gunicorn allows.
MAX_REQUEST_LINE = 8190
_WORKER_END_SECONDS = 30
# How often the worker looks whether its parent process runs.
_PARENT_SECONDS = 1.0
_STANDSTILL_SECONDS = 30
_OUT_OF_MEMORY_SCORE = Path("/proc/self/oom_score_adj")

_log = logging.getLogger("loyalty.serve")


class _QueueWorker:
    """The work of a `loyalty worker` next to the server, restarted if it ends, and ended with the server.

    Its process is forked from the server, so that it starts at once and shares the memory of the loaded modules.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # 0 until the worker is started.
        self._process_id = 0

    def ensure_running(self, listeners: Sequence[Any]) -> None:
        """Start the worker unless it runs; `listeners` are the sockets of the server."""
        if self._is_running():
            return
        parent = os.getpid()
        self._process_id = os.fork()
        if self._process_id == 0:
            self._work(parent, listeners)

    def end(self) -> None:
        """End the worker, after some time to finish its batch."""
        if not self._is_running():
            return
        os.kill(self._process_id, signal.SIGTERM)
        kill_at = time.monotonic() + _WORKER_END_SECONDS
        while self._is_running():
            if time.monotonic() > kill_at:
                os.kill(self._process_id, signal.SIGKILL)
            time.sleep(0.05)

    def _is_running(self) -> bool:
        """True while the process of the worker runs; reaps the process if it has ended."""
        if not self._process_id:
            return False
        try:
            return os.waitpid(self._process_id, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            # The worker has ended, and the arbiter has already reaped it.
            return False

    def _work(self, parent: int, listeners: Sequence[Any]) -> NoReturn:
        """Work until a signal or the end of the parent process ends the worker."""
        status = 1
        try:
            for number in (*Arbiter.SIGNALS, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            # So that the next server can listen on the port while the worker finishes its batch.
            close_sockets(listeners, unlink=False)
            from handlers.server.worker import Worker

            worker = Worker(self._settings)
            worker.stop_at_signals()
            threading.Thread(target=_stop_with_parent, args=(worker, parent), daemon=True).start()
            worker.run()
            status = 0
        except Exception:
            _log.exception("the worker has failed, and is started again")
        finally:
            os._exit(status)


def _stop_with_parent(worker: Any, parent: int) -> None:
    """Wait until the parent process has ended, then stop the worker."""
    while os.getppid() == parent:
        time.sleep(_PARENT_SECONDS)
    worker.stop()


class _Arbiter(Arbiter):  # type: ignore[misc]
    """gunicorn's master process, which also restarts the queue worker and the embedded database."""

    def manage_workers(self) -> None:
        """Restart processes that have ended; called about once a second."""
        super().manage_workers()
        self.app.revive_database()
        if self.app.queue_worker is not None:
            self.app.queue_worker.ensure_running(self.LISTENERS)


class _Server(BaseApplication):  # type: ignore[misc]
    """gunicorn's application, with the API loaded once in the parent and shared with the workers it forks."""

    def __init__(
        self,
        settings: Settings,
        home: Path | None,
        when_ready: Callable[[], None],
        queue_worker: _QueueWorker | None,
    ) -> None:
        self._settings = settings
        self._revive = None if home is None else embedded.reviver(home)
        self._when_ready = when_ready
        self.queue_worker = queue_worker
        self._engine: Engine | None = None
        super().__init__(prog="loyalty serve")

    def run(self) -> None:
        """Serve until a signal ends the server."""
        _Arbiter(self).run()

    def revive_database(self) -> None:
        """Restart the embedded database if it has died; calls get a 503 until it runs again."""
        if self._revive is None:
            return
        try:
            if self._revive():
                _log.error("the embedded database had died, and was started again")
        except embedded.EmbeddedError:
            _log.exception("the embedded database has died, and cannot be started again")

    def load_config(self) -> None:
        """Set gunicorn's settings."""
        for name, value in self._gunicorn_options().items():
            self.cfg.set(name, value)

    def load(self) -> Callable[..., Any]:
        """Create the ASGI application; its engine connects in the workers, at the first call."""
        with loading():
            from handlers.http.app import create_app, serving_engine

            if self.queue_worker is not None:
                # Here, so that the process of the worker shares the modules.
                import handlers.server.worker  # noqa: F401

            self._engine = serving_engine(self._settings)
            return create_app(self._settings, self._engine)

    def _gunicorn_options(self) -> dict[str, Any]:
        """The configuration of gunicorn by the settings."""
        settings = self._settings
        host = host_in_url(settings.host)
        return {
            "bind": [address for address in (f"{host}:{settings.port}", settings.management_bind) if address],
            "workers": settings.workers,
            "worker_class": "handlers.server.connections.LimitedWorker",
            "worker_connections": settings.connections,
            # A worker whose event loop is blocked longer is replaced. Requests have a limit of their own.
            "timeout": _STANDSTILL_SECONDS + settings.request_timeout_ms // 1000,
            "preload_app": True,
            "keepalive": _KEEP_ALIVE_SECONDS,
            "graceful_timeout": _GRACEFUL_SECONDS,
            "limit_request_line": MAX_REQUEST_LINE,
            "control_socket_disable": True,
            "accesslog": None,  # the API itself logs one line for each request
            "loglevel": settings.log_level,
            "proc_name": "loyalty",
            "when_ready": self._on_ready,
            "on_reload": self._on_reload,
            "post_fork": self._after_fork,
            "child_exit": self._after_exit,
        }

    def _on_ready(self, arbiter: Any) -> None:
        collect_rarely()
        self._when_ready()

    def _on_reload(self, arbiter: Any) -> None:
        from handlers.http.logging import configure

        # SIGHUP makes gunicorn set up its log again, with its own handler.
        configure(self._settings.log_level, self._settings.log_format)

    def _after_fork(self, arbiter: Any, worker: Any) -> None:
        """Prepare a new worker process of gunicorn."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        _prefer_for_oom_kill()
        if self._engine is not None:
            # A connection that the parent has opened while loading must not be shared by several processes.
            self._engine.dispose(close=False)

    def _after_exit(self, arbiter: Any, worker: Any) -> None:
        from handlers.metrics import forget_worker

        forget_worker(worker.pid)


def _prefer_for_oom_kill() -> None:
    """When memory runs out, let the kernel kill this process rather than its parent, which replaces it."""
    with suppress(OSError):
        score = int(_OUT_OF_MEMORY_SCORE.read_text())
        _OUT_OF_MEMORY_SCORE.write_text(str(min(1000, score + 100)))


def run(settings: Settings, *, home: Path | None, when_ready: Callable[[], None], with_worker: bool) -> None:
    """Serve until a signal ends the server, which raises SystemExit; call `when_ready` when the socket is open.

    `with_worker` also runs a `loyalty worker` in another process. `home` is the folder of the embedded database, which
    is restarted if it dies; None if the settings name another database.
    """
    # When prometheus-client is imported, it reads from the environment where the workers share their metrics.
    metrics_folder = tempfile.mkdtemp(prefix="loyalty-metrics-")
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = metrics_folder
    parent = os.getpid()
    queue_worker = _QueueWorker(settings) if with_worker else None
    try:
        _Server(settings, home, when_ready, queue_worker).run()
    finally:
        # Workers are forked from this process, so they pass through here as well.
        if os.getpid() == parent:
            if queue_worker is not None:
                queue_worker.end()
            shutil.rmtree(metrics_folder, ignore_errors=True)
