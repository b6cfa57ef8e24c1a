"""Organizations share the threads of a process: none has more than half of them while another one calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from handlers.http.threads import RECENT_SECONDS, FairThreads

# No test waits longer than this; a thread that does not end fails it.
SECONDS = 60


class ThreadsUnderTest:
    """Threads whose work waits until it is released; `begun` has the names of the work in the order of its begin."""

    def __init__(self, *, count: int) -> None:
        self.now = 0.0
        self.begun: list[str] = []
        self.threads = FairThreads(count, "test", lambda: self.now)
        self._changed = threading.Condition()
        self._released: set[str] = set()

    def call(self, organization: str | None, name: str) -> Future[str]:
        """Submit work of an organization; its result is its name."""
        return self.threads.of(organization).submit(self._work, name)

    def _work(self, name: str) -> str:
        with self._changed:
            self.begun.append(name)
            self._changed.notify_all()
            self._changed.wait_for(lambda: name in self._released or "all" in self._released, SECONDS)
        return name

    def release(self, *names: str) -> None:
        """Let the work of these names end, or that of all names by "all"."""
        with self._changed:
            self._released |= set(names)
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[str]:
        """Wait until this number of calls has begun; return their names."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.begun) >= count, SECONDS)
            return list(self.begun)


@pytest.fixture
def pool_of_4() -> Iterator[ThreadsUnderTest]:
    new_pool = ThreadsUnderTest(count=4)
    yield new_pool
    new_pool.release("all")
    new_pool.threads.close()


def test_the_only_calling_organization_has_all_threads(pool_of_4):
    # The fifth call waits.
    for n in range(5):
        pool_of_4.call("a", f"a{n}")
    assert sorted(pool_of_4.wait_for(4)) == ["a0", "a1", "a2", "a3"]


def test_an_organization_has_at_most_half_of_the_threads_while_another_one_calls(pool_of_4):
    pool_of_4.call("b", "b0")
    pool_of_4.release("b0")
    for n in range(10):
        pool_of_4.call("a", f"a{n}")
    # The organization a has two of the four threads, because b has called just before.
    assert set(pool_of_4.wait_for(3)) == {"b0", "a0", "a1"}
    # The other two threads are free for other organizations.
    pool_of_4.call("c", "c0")
    pool_of_4.call("b", "b1")
    assert set(pool_of_4.wait_for(5)[3:]) == {"c0", "b1"}
    pool_of_4.release("a0")
    assert pool_of_4.wait_for(6)[5:] == ["a2"]


def test_calls_of_waiting_organizations_are_started_in_turn():
    # Work on one thread begins in a fixed order.
    pool = ThreadsUnderTest(count=1)
    call_of_a = pool.call("a", "a0")
    pool.wait_for(1)
    for name in ("a1", "a2", "a3", "b1", "c1", "b2"):
        pool.call(name[0], name)
    pool.release("all")
    assert call_of_a.result(SECONDS) == "a0"
    assert pool.wait_for(7) == ["a0", "a1", "b1", "c1", "a2", "b2", "a3"]
    pool.threads.close()


def test_an_organization_that_called_long_ago_no_longer_counts(pool_of_4):
    pool_of_4.call("b", "b0")
    pool_of_4.release("b0")
    pool_of_4.wait_for(1)
    # After this time, b is no longer an organization that calls.
    pool_of_4.now = RECENT_SECONDS + 1
    for n in range(4):
        pool_of_4.call("a", f"a{n}")
    assert sorted(pool_of_4.wait_for(5)[1:]) == ["a0", "a1", "a2", "a3"]


def test_work_without_an_organization_does_not_count_as_another_organization(pool_of_4):
    pool_of_4.call(None, "key")
    pool_of_4.release("key")
    for n in range(4):
        pool_of_4.call("a", f"a{n}")
    assert sorted(pool_of_4.wait_for(5)) == ["a0", "a1", "a2", "a3", "key"]


def test_errors_are_raised_and_cancelled_calls_are_not_run(pool_of_4):
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        pool_of_4.threads.of("a").submit(fail).result(SECONDS)
    # All four threads are busy.
    for n in range(4):
        pool_of_4.call("a", f"a{n}")
    pool_of_4.wait_for(4)
    waiting_call = pool_of_4.call("a", "never")
    assert waiting_call.cancel()
    pool_of_4.release("all")
    assert pool_of_4.call("a", "last").result(SECONDS) == "last"
    assert "never" not in pool_of_4.begun


def test_closing_finishes_waiting_calls_and_the_threads_can_be_reused(pool_of_4):
    calls = [pool_of_4.call("a", f"a{n}") for n in range(6)]
    pool_of_4.wait_for(4)
    closing = threading.Thread(target=pool_of_4.threads.close)
    closing.start()
    pool_of_4.release("all")
    closing.join(SECONDS)
    assert [call.result(0) for call in calls] == [f"a{n}" for n in range(6)]
    assert pool_of_4.call("a", "again").result(SECONDS) == "again"
