"""The threads that do calls, shared fairly by organizations.

Work that has begun cannot be interrupted, so a call that needs a thread at once must find one. Therefore an
organization has at most half of the threads if another one has called within the last `RECENT_SECONDS`, and all threads
if none has. Waiting calls begin in turns, one of each organization.
"""

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any

from handlers.http.threads import Threads

RECENT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class _Work:
    future: Future[Any]
    do: Callable[[], Any]

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.do()
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class FairThreads:
    """At most `count` threads; `of(organization)` is the executor of an organization's work."""

    def __init__(self, count: int, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._count = count
        self._threads = Threads(count, name)
        self._clock = clock
        # Notified when there is no more work.
        self._lock = threading.Condition()
        self._is_closing = False
        self._waiting: OrderedDict[Hashable, deque[_Work]] = OrderedDict()
        self._running: Counter[Hashable] = Counter()
        # When each organization called last, the latest at the end.
        self._called: OrderedDict[Hashable, float] = OrderedDict()

    def of(self, organization: Hashable) -> Executor:
        """The executor of an organization's work; None stands for work before the organization is found."""
        return _Share(self, organization)

    def submit(self, organization: Hashable, do: Callable[[], Any]) -> Future[Any]:
        """Have work done by one of the threads; raises RuntimeError while they end."""
        work = _Work(Future(), do)
        with self._lock:
            if self._is_closing:
                raise RuntimeError("the threads are ending")
            if organization is not None:
                self._called[organization] = self._clock()
                self._called.move_to_end(organization)
            self._waiting.setdefault(organization, deque()).append(work)
            self._begin()
        return work.future

    def close(self) -> None:
        """Let running and waiting work finish, then end the threads."""
        with self._lock:
            self._is_closing = True
            self._lock.wait_for(lambda: not self._running)
            self._is_closing = False
        self._threads.close()

    def _begin(self) -> None:
        """Give free threads to the organizations that wait, in turns."""
        while self._waiting and self._running.total() < self._count:
            share = self._share()
            below_share = [waiting for waiting in self._waiting if self._running[waiting] < share]
            if not below_share:
                return
            organization = below_share[0]
            works = self._waiting[organization]
            work = works.popleft()
            if works:
                self._waiting.move_to_end(organization)
            else:
                del self._waiting[organization]
            self._running[organization] += 1
            self._threads().submit(self._run, organization, work)

    def _share(self) -> int:
        """The threads that one organization has at most."""
        since = self._clock() - RECENT_SECONDS
        while len(self._called) > 1 and next(iter(self._called.values())) < since:
            self._called.popitem(last=False)
        return self._count if len(self._called) < 2 else max(1, self._count // 2)

    def _run(self, organization: Hashable, work: _Work) -> None:
        try:
            work.run()
        finally:
            with self._lock:
                self._running[organization] -= 1
                if not self._running[organization]:
                    del self._running[organization]
                self._begin()
                self._lock.notify_all()


class _Share(Executor):
    def __init__(self, threads: FairThreads, organization: Hashable) -> None:
        self._fair_threads = threads
        self._organization = organization

    def submit(self, do: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._fair_threads.submit(self._organization, lambda: do(*args, **kwargs))
