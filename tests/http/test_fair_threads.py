"""Organizations share the threads of a process: none has more than half of them while another one calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from handlers.http.threads import RECENT_SECONDS, FairThreads

SECONDS = 60


class ThreadsUnderTest:
    """Threads whose work waits until it is released; `begun` has the names of the work in the order of its begin."""

    def __init__(self, count: int = 4) -> None:
        self.now = 0.0
        self.begun: list[str] = []
        self.threads = FairThreads(count, "test", lambda: self.now)
        self._changed = threading.Condition()
        self._released: set[str] = set()

    def call(self, organization: str | None, name: str) -> Future[str]:
        return self.threads.of(organization).submit(self._work, name)

    def _work(self, name: str) -> str:
        with self._changed:
            self.begun.append(name)
            self._changed.notify_all()
            self._changed.wait_for(lambda: name in self._released or "all" in self._released, SECONDS)
        return name

    def release(self, *names: str) -> None:
        with self._changed:
            self._released |= set(names)
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[str]:
        """Wait until this number of calls has begun; return their names."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.begun) >= count, SECONDS)
            return list(self.begun)


@pytest.fixture
def pool() -> Iterator[ThreadsUnderTest]:
    new_pool = ThreadsUnderTest()
    yield new_pool
    new_pool.release("all")
    new_pool.threads.close()


def test_the_only_calling_organization_has_all_threads(pool):
    for n in range(5):
        pool.call("a", f"a{n}")
    assert sorted(pool.wait_for(4)) == ["a0", "a1", "a2", "a3"]


def test_an_organization_has_at_most_half_of_the_threads_while_another_one_calls(pool):
    pool.call("b", "b0")
    pool.release("b0")
    for n in range(10):
        pool.call("a", f"a{n}")
    # The organization a has two of the four threads, because b has called just before.
    assert set(pool.wait_for(3)) == {"b0", "a0", "a1"}
    pool.call("c", "c0")
    pool.call("b", "b1")
    assert set(pool.wait_for(5)[3:]) == {"c0", "b1"}
    pool.release("a0")
    assert pool.wait_for(6)[5:] == ["a2"]


def test_calls_of_waiting_organizations_are_started_in_turn(pool):
    # Work on one thread begins in a fixed order.
    pool = ThreadsUnderTest(count=1)
    first = pool.call("a", "a0")
    pool.wait_for(1)
    for name in ("a1", "a2", "a3", "b1", "c1", "b2"):
        pool.call(name[0], name)
    pool.release("all")
    assert first.result(SECONDS) == "a0"
    assert pool.wait_for(7) == ["a0", "a1", "b1", "c1", "a2", "b2", "a3"]
    pool.threads.close()


def test_an_organization_that_called_long_ago_no_longer_counts(pool):
    pool.call("b", "b0")
    pool.release("b0")
    pool.wait_for(1)
    # After this time, b is no longer an organization that calls.
    pool.now = RECENT_SECONDS + 1
    for n in range(4):
        pool.call("a", f"a{n}")
    assert sorted(pool.wait_for(5)[1:]) == ["a0", "a1", "a2", "a3"]


def test_work_without_an_organization_does_not_count_as_another_organization(pool):
    pool.call(None, "key")
    pool.release("key")
    for n in range(4):
        pool.call("a", f"a{n}")
    assert sorted(pool.wait_for(5)) == ["a0", "a1", "a2", "a3", "key"]


def test_errors_are_raised_and_cancelled_calls_are_not_run(pool):
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        pool.threads.of("a").submit(fail).result(SECONDS)
    for n in range(4):
        pool.call("a", f"a{n}")
    pool.wait_for(4)
    waiting_call = pool.call("a", "never")
    assert waiting_call.cancel()
    pool.release("all")
    assert pool.call("a", "last").result(SECONDS) == "last"
    assert "never" not in pool.begun


def test_closing_finishes_waiting_calls_and_the_threads_can_be_reused(pool):
    calls = [pool.call("a", f"a{n}") for n in range(6)]
    pool.wait_for(4)
    closing = threading.Thread(target=pool.threads.close)
    closing.start()
    pool.release("all")
    closing.join(SECONDS)
    assert [call.result(0) for call in calls] == [f"a{n}" for n in range(6)]
    assert pool.call("a", "again").result(SECONDS) == "again"
