"""The threads that run calls: shared fairly by organizations, with calls that wait for each other run as one batch.

Work that has begun cannot be interrupted, so a call that needs a thread at once must find one. Therefore an
organization has at most half of the threads if another one has called within the last `RECENT_SECONDS`, and all threads
if none has. Waiting calls begin in turns, one of each organization.

Calls of one kind (one operation of one organization) that have arrived when the event loop looks for requests are one
batch. Calls of this kind that come while the batch runs wait, and are the next batch. So a batch is as large as the
load makes it, an only call never waits for others, and one organization occupies one thread of the process with one
operation. If a batch takes long, for example because another transaction keeps a lock that it needs, the waiting calls
overtake it. The next batch runs on the same thread, which costs less than waking another one, unless other work waits
for a thread.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from handlers.call import NotBatchable

RECENT_SECONDS = 600.0
PATIENCE_SECONDS = 0.1


class Threads:
    """A pool of at most `count` threads, created at first use: after a fork, and again after a shutdown.

    Calling it returns the executor.
    """

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


@dataclass(frozen=True, slots=True)
class _Work:
    future: Future[Any]
    do: Callable[[], Any]


class FairThreads:
    """At most `count` threads; `of(organization)` is the executor of an organization's work.

    Waiting work begins in turns, one of each organization. The work of an organization begins in turns of its clients,
    if `of` was called with clients.
    """

    def __init__(self, count: int, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._count = count
        self._threads = Threads(count, name)
        self._clock = clock
        # Notified whenever work has ended.
        self._lock = threading.Condition()
        self._is_closing = False
        # By organization, then by client.
        self._waiting: OrderedDict[Hashable, OrderedDict[Hashable, deque[_Work]]] = OrderedDict()
        self._running: Counter[Hashable] = Counter()
        # The time of the last call of each organization, the latest at the end.
        self._last_calls: OrderedDict[Hashable, float] = OrderedDict()

    def of(self, organization: Hashable, client: Hashable = None) -> Share:
        """The executor of the work of an organization, or of one of its clients.

        The organization None is work before the organization is found.
        """
        return Share(self, organization, client)

    def has_waiting_work(self) -> bool:
        """True if work waits for a thread."""
        return bool(self._waiting)

    def submit(self, organization: Hashable, client: Hashable, do: Callable[[], Any]) -> Future[Any]:
        """Have work done by one of the threads; raises RuntimeError while they end."""
        work = _Work(Future(), do)
        with self._lock:
            if self._is_closing:
                raise RuntimeError("the threads are ending")
            # One thread cannot be shared. Then the last calls are not needed, and the addresses of token requests, of
            # which there may be any number, would fill the memory.
            if organization is not None and self._count > 1:
                self._last_calls[organization] = self._clock()
                self._last_calls.move_to_end(organization)
            self._waiting.setdefault(organization, OrderedDict()).setdefault(client, deque()).append(work)
            self._start_waiting_work()
        return work.future

    def close(self) -> None:
        """Let running and waiting work finish, then end the threads."""
        with self._lock:
            self._is_closing = True
            self._lock.wait_for(lambda: not self._running)
            self._is_closing = False
        self._threads.close()

    def _start_waiting_work(self) -> None:
        """Give free threads to the organizations that wait, in turns."""
        while self._waiting and self._running.total() < self._count:
            maximum = self._max_of_each()
            organizations = [waiting for waiting in self._waiting if self._running[waiting] < maximum]
            if not organizations:
                return
            organization = organizations[0]
            clients = self._waiting[organization]
            client, waiting_work = next(iter(clients.items()))
            work = waiting_work.popleft()
            _end_turn(clients, client)
            _end_turn(self._waiting, organization)
            self._running[organization] += 1
            self._threads().submit(self._run, organization, work)

    def _max_of_each(self) -> int:
        """The maximum number of threads of one organization: all, or half of them if several have called recently."""
        since = self._clock() - RECENT_SECONDS
        while len(self._last_calls) > 1 and next(iter(self._last_calls.values())) < since:
            self._last_calls.popitem(last=False)
        return self._count if len(self._last_calls) < 2 else max(1, self._count // 2)

    def _run(self, organization: Hashable, work: _Work) -> None:
        """Do the work in a thread, set its result or exception, and begin the next work that waits."""
        try:
            if work.future.set_running_or_notify_cancel():
                try:
                    result = work.do()
                except BaseException as error:
                    work.future.set_exception(error)
                else:
                    work.future.set_result(result)
        finally:
            with self._lock:
                self._running[organization] -= 1
                if not self._running[organization]:
                    del self._running[organization]
                self._start_waiting_work()
                self._lock.notify_all()


def _end_turn(waiting: OrderedDict[Hashable, Any], key: Hashable) -> None:
    """Put the organization or client `key` behind all others that wait; forget it if it has no work left."""
    if waiting[key]:
        waiting.move_to_end(key)
    else:
        del waiting[key]


class Share(Executor):
    """The executor of the work of one organization or client by fair threads."""

    def __init__(self, threads: FairThreads, organization: Hashable, client: Hashable) -> None:
        self._fair_threads = threads
        self._organization = organization
        self._client = client

    def submit(self, do: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have work done for the organization or client by one of the threads."""
        return self._fair_threads.submit(self._organization, self._client, partial(do, *args, **kwargs))

    def has_waiting_work(self) -> bool:
        """True if work waits for a thread, of this organization or another."""
        return self._fair_threads.has_waiting_work()


Result = TypeVar("Result")


class WaitingCall(Generic[Result]):
    """A call that waits for its batch, mostly a batch of one; its future can be cancelled until the batch begins."""

    def __init__(self) -> None:
        self.future: Future[Result] = Future()


WaitingCalls = TypeVar("WaitingCalls", bound="WaitingCall[Any]")

# Calls a function after a number of seconds.
CallLater = Callable[[float, Callable[[], None]], Any]


class _Kind(Generic[WaitingCalls]):
    """The batches of one kind: how many are running, when the last one began, and the calls that wait."""

    def __init__(self) -> None:
        self.running_batches = 0
        self.last_began_at = 0.0
        self.waiting: deque[WaitingCalls] = deque()

    def take_batch(self, max_calls: int) -> list[WaitingCalls]:
        """Take the next batch from the calls that wait; it begins now."""
        self.last_began_at = time.monotonic()
        return [self.waiting.popleft() for _ in range(min(len(self.waiting), max_calls))]


class CallBatches(Generic[WaitingCalls]):
    """The batches of calls, by kind; `run` runs a batch of at most `max_calls` and returns the outcome of each.

    An outcome is a result, an error, or NotBatchable: that call is run again, in a batch of its own. Calls that have
    waited `PATIENCE_SECONDS` for a batch overtake it.
    """

    def __init__(self, run: Callable[[Sequence[WaitingCalls]], Sequence[Any]], max_calls: int) -> None:
        self._run_calls = run
        self._max_calls = max_calls
        self._lock = threading.Lock()
        # The kinds that have running batches or waiting calls.
        self._kinds: dict[Hashable, _Kind[WaitingCalls]] = {}

    def submit_individually(self, call: WaitingCalls, pool: Executor) -> None:
        """Have a call run in one of the threads of `pool`, in a batch of its own."""
        pool.submit(self._run_uncancelled, [call], pool)

    def submit(self, kind: Hashable, call: WaitingCalls, pool: Share, call_later: CallLater) -> None:
        """Have a call run in one of the threads of `pool`, in the next batch of its kind."""
        with self._lock:
            state = self._kinds.setdefault(kind, _Kind())
            state.waiting.append(call)
            is_first = len(state.waiting) == 1
        if is_first:
            # Not at once: the event loop first submits the other requests that have arrived.
            call_later(0.0, lambda: self._begin_or_wait(kind, pool, call_later))

    def _begin_or_wait(self, kind: Hashable, pool: Share, call_later: CallLater) -> None:
        """Begin the next batch of a kind if none is running, or if the last one takes too long; else wait."""
        with self._lock:
            state = self._kinds.get(kind)
            if state is None or not state.waiting:
                return
            patience = state.last_began_at + PATIENCE_SECONDS - time.monotonic() if state.running_batches else 0.0
            batch = []
            if patience <= 0:
                batch = state.take_batch(self._max_calls)
                state.running_batches += 1
        if batch:
            pool.submit(self._run_batches, kind, batch, pool)
        else:
            call_later(patience, lambda: self._begin_or_wait(kind, pool, call_later))

    def _run_batches(self, kind: Hashable, batch: Sequence[WaitingCalls], pool: Share) -> None:
        """Run a batch, and then the calls of its kind that came meanwhile.

        The later calls run on the same thread, unless other work waits for a thread.
        """
        while batch:
            self._run_uncancelled(batch, pool)
            with self._lock:
                state = self._kinds[kind]
                batch = state.take_batch(self._max_calls) if state.waiting else []
                if not batch:
                    state.running_batches -= 1
                    if not state.running_batches:
                        del self._kinds[kind]
            if batch and pool.has_waiting_work():
                _submit_or_run(pool, partial(self._run_batches, kind, batch, pool))
                return

    def _run_uncancelled(self, batch: Sequence[WaitingCalls], pool: Executor) -> None:
        """Run the calls of a batch that were not cancelled while they waited."""
        running_calls = [call for call in batch if call.future.set_running_or_notify_cancel()]
        if running_calls:
            self._run(running_calls, pool)

    def _run(self, batch: Sequence[WaitingCalls], pool: Executor) -> None:
        """Run the calls as a batch and set their outcomes; run a call that is not batchable again, individually."""
        outcomes: Sequence[Any]
        try:
            outcomes = self._run_calls(batch)
        except BaseException as error:
            outcomes = [error] * len(batch)
        for call, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, NotBatchable) and len(batch) > 1:
                _submit_or_run(pool, partial(self._run, [call], pool))
            elif isinstance(outcome, BaseException):
                call.future.set_exception(outcome)
            else:
                call.future.set_result(outcome)


def _submit_or_run(pool: Executor, work: Callable[[], None]) -> None:
    """Have work done by the pool, or do it here if the pool accepts no more work."""
    try:
        pool.submit(work)
    except RuntimeError:
        # The server is ending: its threads finish their work and take no more.
        work()
