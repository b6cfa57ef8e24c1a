"""Organizations share the threads of a process: none has more than half of them while another one calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from handlers.http.threads import RECENT_SECONDS, FairThreads

SECONDS = 60


class Office:
    """Threads whose work waits until it is released; `begun` names the work in the order in which it began."""

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
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.begun) >= count, SECONDS)
            return list(self.begun)


@pytest.fixture
def office() -> Iterator[Office]:
    new_office = Office()
    yield new_office
    new_office.release("all")
    new_office.threads.close()


def test_the_only_calling_organization_has_all_threads(office):
    for n in range(5):
        office.call("a", f"a{n}")
    assert sorted(office.wait_for(4)) == ["a0", "a1", "a2", "a3"]


def test_an_organization_has_at_most_half_of_the_threads_while_another_one_calls(office):
    office.call("b", "b0")
    office.release("b0")
    for n in range(10):
        office.call("a", f"a{n}")
    assert set(office.wait_for(3)) == {"b0", "a0", "a1"}
    office.call("c", "c0")
    office.call("b", "b1")
    assert set(office.wait_for(5)[3:]) == {"c0", "b1"}
    office.release("a0")
    assert office.wait_for(6)[5:] == ["a2"]


def test_calls_of_waiting_organizations_are_started_in_turn(office):
    office = Office(count=1)
    first = office.call("a", "a0")
    office.wait_for(1)
    for name in ("a1", "a2", "a3", "b1", "c1", "b2"):
        office.call(name[0], name)
    office.release("all")
    assert first.result(SECONDS) == "a0"
    assert office.wait_for(7) == ["a0", "a1", "b1", "c1", "a2", "b2", "a3"]
    office.threads.close()


def test_an_organization_that_called_long_ago_no_longer_counts(office):
    office.call("b", "b0")
    office.release("b0")
    office.wait_for(1)
    office.now = RECENT_SECONDS + 1
    for n in range(4):
        office.call("a", f"a{n}")
    assert sorted(office.wait_for(5)[1:]) == ["a0", "a1", "a2", "a3"]


def test_work_of_no_organization_leaves_all_threads_to_the_only_one(office):
    office.call(None, "key")
    office.release("key")
    for n in range(4):
        office.call("a", f"a{n}")
    assert sorted(office.wait_for(5)) == ["a0", "a1", "a2", "a3", "key"]


def test_errors_are_raised_and_cancelled_calls_are_not_run(office):
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        office.threads.of("a").submit(fail).result(SECONDS)
    for n in range(4):
        office.call("a", f"a{n}")
    office.wait_for(4)
    waiting = office.call("a", "never")
    assert waiting.cancel()
    office.release("all")
    assert office.call("a", "last").result(SECONDS) == "last"
    assert "never" not in office.begun


def test_closing_finishes_waiting_calls_and_the_threads_can_be_reused(office):
    calls = [office.call("a", f"a{n}") for n in range(6)]
    office.wait_for(4)
    closing = threading.Thread(target=office.threads.close)
    closing.start()
    office.release("all")
    closing.join(SECONDS)
    assert [call.result(0) for call in calls] == [f"a{n}" for n in range(6)]
    assert office.call("a", "again").result(SECONDS) == "again"
