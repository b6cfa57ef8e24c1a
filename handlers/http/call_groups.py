"""Calls that wait are done together: one unit of work, one commit, an answer for each.

A call that comes while no other of its kind is under way begins at once. Those of the same kind (one operation of one
organization) that come meanwhile wait, and are the next group. So a group is as large as the load makes it, a call
alone is never delayed, and one organization occupies one thread of the process with one operation. If a group takes
long, say because somebody keeps a lock that it needs, the calls that wait overtake it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Generic, TypeVar, Union

Result = TypeVar("Result")
# The outcome of one call of a group; None means that it has to be done alone.
Outcome = Union[Result, Exception, None]  # noqa: UP007  (an alias with a parameter)


class WaitingCall(Generic[Result]):
    """A call of a group, which can be cancelled until its group begins; `do` does it by itself, given the call."""

    def __init__(self, do: Callable[[Any], Result]) -> None:
        self._do = do
        self.future: Future[Result] = Future()

    def finish_alone(self) -> None:
        """Do the call by itself."""
        try:
            self.future.set_result(self._do(self))
        except BaseException as error:
            self.future.set_exception(error)


Call = TypeVar("Call", bound="WaitingCall[Any]")


PATIENCE_SECONDS = 0.1

# Does something after so many seconds.
Later = Callable[[float, Callable[[], None]], Any]


class _Kind(Generic[Call]):
    """The groups of one kind: how many are under way, since when the last one, and the calls that wait."""

    def __init__(self) -> None:
        self.under_way = 0
        self.began = 0.0
        self.waiting: deque[Call] = deque()

    def begin(self, most: int) -> list[Call]:
        """Take the next group."""
        self.began = time.monotonic()
        return [self.waiting.popleft() for _ in range(min(len(self.waiting), most))]


class CallGroups(Generic[Call]):
    """The calls that wait, by kind; `together` does those of one group, at most `most`, and returns their outcomes.

    Calls that have waited `PATIENCE_SECONDS` for a group overtake it.
    """

    def __init__(self, together: Callable[[Sequence[Call]], Sequence[Outcome[Any]]], most: int) -> None:
        self._together = together
        self._most = most
        self._lock = threading.Lock()
        # Kinds of which a group is under way.
        self._kinds: dict[Hashable, _Kind[Call]] = {}

    def submit(self, kind: Hashable, call: Call, pool: Executor, later: Later) -> None:
        """Have a call done in one of the threads of `pool`: now, or with the next group of its kind."""
        with self._lock:
            state = self._kinds.setdefault(kind, _Kind())
            state.waiting.append(call)
            is_first = len(state.waiting) == 1
        if is_first:
            self._begin_or_wait(kind, pool, later)

    def _begin_or_wait(self, kind: Hashable, pool: Executor, later: Later) -> None:
        """Begin the next group of a kind if none is under way, or if the last one takes too long."""
        with self._lock:
            state = self._kinds.get(kind)
            if state is None or not state.waiting:
                return
            left = state.began + PATIENCE_SECONDS - time.monotonic() if state.under_way else 0.0
            group = state.begin(self._most) if left <= 0 else []
            state.under_way += bool(group)
        if group:
            pool.submit(self._run, kind, group, pool)
        else:
            later(left, lambda: self._begin_or_wait(kind, pool, later))

    def _run(self, kind: Hashable, group: Sequence[Call], pool: Executor) -> None:
        """Do a group, then hand on the calls that came meanwhile, which wait for a thread like any other work."""
        try:
            self._finish([call for call in group if call.future.set_running_or_notify_cancel()], pool)
        finally:
            with self._lock:
                state = self._kinds[kind]
                following = state.begin(self._most)
                state.under_way -= not following
                if not state.under_way:
                    del self._kinds[kind]
            if following:
                try:
                    pool.submit(self._run, kind, following, pool)
                except RuntimeError:
                    # The server is ending: its threads finish their work and take no more.
                    self._run(kind, following, pool)

    def _finish(self, group: Sequence[Call], pool: Executor) -> None:
        if len(group) == 1:
            group[0].finish_alone()
            return
        try:
            outcomes = self._together(group) if group else ()
        except Exception as error:
            outcomes = [error] * len(group)
        for call, outcome in zip(group, outcomes, strict=True):
            if outcome is None:
                try:
                    pool.submit(call.finish_alone)
                except RuntimeError:
                    call.finish_alone()
            elif isinstance(outcome, Exception):
                call.future.set_exception(outcome)
            else:
                call.future.set_result(outcome)
