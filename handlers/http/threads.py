"""The threads of a process, created at first use: after a fork, and again after a shutdown."""

from concurrent.futures import ThreadPoolExecutor


class Threads:
    """A pool of at most `count` threads; calling it returns the executor."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._executor: ThreadPoolExecutor | None = None

    def __call__(self) -> ThreadPoolExecutor:
        """The executor; to be called on the thread of the event loop only."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._count, thread_name_prefix=self._name)
        return self._executor

    def close(self) -> None:
        """Let running work finish, then end the threads."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True)
