"""The threads of a process, made when they are first needed: after a fork, and again after a shutdown."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor


class Threads:
    """A pool of at most `count` threads; calling it answers the executor."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._executor: ThreadPoolExecutor | None = None

    def __call__(self) -> ThreadPoolExecutor:
        """The executor; asked for on the event loop's thread only."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._count, thread_name_prefix=self._name)
        return self._executor

    def close(self) -> None:
        """Let the work under way finish, then end the threads."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True)
