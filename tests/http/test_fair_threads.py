"""Organizations share the threads of a process: none has more than half of them while another one calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from handlers.http.threads import RECENT_SECONDS, FairThreads

SECONDS = 60


class ThreadsUnderTest:
    """Threads that run named calls; a call that has begun occupies its thread until the test releases it.

    `begun` has the names of the calls in the order in which they began.
    """

    def __init__(self, *, count: int) -> None:
        self.now = 0.0
        self.begun: list[str] = []
        self.threads = FairThreads(count, "test", lambda: self.now)
        self._changed = threading.Condition()
        self._released: set[str] = set()

    def call(self, organization: str | None, name: str) -> Future[str]:
        """Queue a call of an organization; return its future, whose result is the name."""
        return self.threads.of(organization).submit(self._work, name)

    def _work(self, name: str) -> str:
        with self._changed:
            self.begun.append(name)
            self._changed.notify_all()
            self._changed.wait_for(lambda: name in self._released or "all" in self._released, SECONDS)
        return name

    def release(self, *names: str) -> None:
        """Let calls of these names end as soon as they have begun; "all" releases every call, also later ones."""
        with self._changed:
            self._released |= set(names)
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[str]:
        """Wait until this number of calls has begun since the test started; return their names in that order."""
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
    for n in range(5):
        pool_of_4.call("a", f"a{n}")
    # The fifth call waits, because the pool has four threads.
    assert sorted(pool_of_4.wait_for(4)) == ["a0", "a1", "a2", "a3"]


def test_an_organization_has_at_most_half_of_the_threads_while_another_one_calls(pool_of_4):
    pool_of_4.call("b", "b0")
    pool_of_4.release("b0")
    for n in range(10):
        pool_of_4.call("a", f"a{n}")
    # The organization a has two of the four threads, because b has called just before. The other eight calls wait.
    assert set(pool_of_4.wait_for(3)) == {"b0", "a0", "a1"}
    # The other two threads are free for other organizations.
    pool_of_4.call("c", "c0")
    pool_of_4.call("b", "b1")
    begun_of_others = pool_of_4.wait_for(5)[3:]
    assert set(begun_of_others) == {"c0", "b1"}
    # When a call of a ends, its thread takes the next call of a.
    pool_of_4.release("a0")
    begun_after_release = pool_of_4.wait_for(6)[5:]
    assert begun_after_release == ["a2"]


def test_calls_of_waiting_organizations_are_started_in_turn():
    # With one thread, calls begin in a fixed order.
    one_thread = ThreadsUnderTest(count=1)
    running_call = one_thread.call("a", "a0")
    one_thread.wait_for(1)
    for organization, name in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1"), ("b", "b2")):
        one_thread.call(organization, name)
    one_thread.release("all")
    assert running_call.result(SECONDS) == "a0"
    assert one_thread.wait_for(7) == ["a0", "a1", "b1", "c1", "a2", "b2", "a3"]
    one_thread.threads.close()


def test_an_organization_that_called_long_ago_no_longer_counts(pool_of_4):
    pool_of_4.call("b", "b0")
    pool_of_4.release("b0")
    pool_of_4.wait_for(1)
    # After this time, b is no longer an organization that calls.
    pool_of_4.now = RECENT_SECONDS + 1
    for n in range(4):
        pool_of_4.call("a", f"a{n}")
    # So a gets all four threads.
    begun_after_b = pool_of_4.wait_for(5)[1:]
    assert sorted(begun_after_b) == ["a0", "a1", "a2", "a3"]


def test_work_without_an_organization_does_not_count_as_another_organization(pool_of_4):
    pool_of_4.call(None, "without organization")
    pool_of_4.release("without organization")
    for n in range(4):
        pool_of_4.call("a", f"a{n}")
    # All four threads run calls of a.
    assert sorted(pool_of_4.wait_for(5)) == ["a0", "a1", "a2", "a3", "without organization"]


def test_errors_are_raised_and_cancelled_calls_are_not_run(pool_of_4):
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        pool_of_4.threads.of("a").submit(fail).result(SECONDS)
    # All four threads are busy, so the next call waits.
    for n in range(4):
        pool_of_4.call("a", f"a{n}")
    pool_of_4.wait_for(4)
    waiting_call = pool_of_4.call("a", "never")
    assert waiting_call.cancel()
    pool_of_4.release("all")
    assert pool_of_4.call("a", "last").result(SECONDS) == "last"
    assert "never" not in pool_of_4.begun


def test_closing_finishes_waiting_calls_and_the_threads_can_be_reused(pool_of_4):
    # Four calls run, and two wait.
    calls = [pool_of_4.call("a", f"a{n}") for n in range(6)]
    pool_of_4.wait_for(4)
    closing_thread = threading.Thread(target=pool_of_4.threads.close)
    closing_thread.start()
    pool_of_4.release("all")
    closing_thread.join(SECONDS)
    assert [call.result(0) for call in calls] == [f"a{n}" for n in range(6)]
    assert pool_of_4.call("a", "again").result(SECONDS) == "again"
