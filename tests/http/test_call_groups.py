"""Calls that wait are run in batches: which calls make a batch, and what happens to each of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

import pytest

from handlers.call import NotBatchable
from handlers.http import threads
from handlers.http.threads import CallBatches, WaitingCall


class Call(WaitingCall[str]):
    """A call with a name; one that `waits` does so while it is run."""

    def __init__(self, name: str, waits: bool) -> None:
        super().__init__()
        self.name, self.waits = name, waits


class Kitchen:
    """Batches whose first call waits until `go_on`, so that the next ones wait for it; `batches` are those that began.

    Batches of one are not among them, but in `individually`.
    """

    def __init__(self, most: int = 100) -> None:
        self.batches: list[list[Call]] = []
        self.individually: list[str] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.outcome: Callable[[Call], Any] = lambda call: f"with {len(self.batches[-1])}"
        self.pool = ThreadPoolExecutor(4)
        self.calls = CallBatches(self._run, most)
        self.later: list[Callable[[], None]] = []

    def _run(self, batch: Sequence[Call]) -> list[Any]:
        if len(batch) > 1:
            self.batches.append(list(batch))
            return [self.outcome(call) for call in batch]
        if batch[0].waits:
            self.begun.set()
            assert self.go_on.wait(60)
        self.individually.append(batch[0].name)
        return ["alone"]

    def call(self, name: str, kind: str | None = "kind", *, waits: bool = False) -> Call:
        made = Call(name, waits)
        self.calls.submit(kind, made, self.pool, lambda seconds, do: self.later.append(do))
        if waits:
            assert self.begun.wait(60)
        return made


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody overtakes, however slow the machine is."""
    monkeypatch.setattr(threads, "PATIENCE_SECONDS", 600.0)


@pytest.fixture
def kitchen() -> Iterator[Kitchen]:
    made = Kitchen()
    yield made
    made.go_on.set()
    made.pool.shutdown()


def results(*calls: Call) -> list[str]:
    return [call.future.result(60) for call in calls]


def test_a_call_that_finds_no_other_begins_at_once_and_alone(kitchen):
    assert results(kitchen.call("one"), kitchen.call("two", "other")) == ["alone", "alone"]
    assert kitchen.batches == []


def test_calls_without_a_kind_wait_for_nobody(kitchen):
    first = kitchen.call("first", None, waits=True)
    assert results(*(kitchen.call(f"other {number}", None) for number in range(3))) == ["alone"] * 3
    kitchen.go_on.set()
    assert results(first) == ["alone"]


def test_calls_that_come_while_one_is_under_way_are_the_next_group(kitchen):
    first = kitchen.call("first", waits=True)
    waiting = [kitchen.call(f"waiting {number}") for number in range(5)]
    assert not any(call.future.done() for call in waiting)
    kitchen.go_on.set()
    assert results(first, *waiting) == ["alone", *["with 5"] * 5]
    assert kitchen.batches == [waiting]


def test_a_call_that_waits_alone_is_done_alone(kitchen):
    first = kitchen.call("first", waits=True)
    second = kitchen.call("second")
    kitchen.go_on.set()
    assert results(first, second) == ["alone", "alone"]


def test_a_group_has_at_most_so_many_calls_and_the_others_keep_their_order():
    kitchen = Kitchen(most=3)
    first = kitchen.call("first", waits=True)
    waiting = [kitchen.call(f"waiting {number}") for number in range(7)]
    kitchen.go_on.set()
    assert results(first, *waiting) == ["alone", *["with 3"] * 6, "alone"]
    assert kitchen.batches == [waiting[:3], waiting[3:6]]
    kitchen.pool.shutdown()


def test_calls_of_other_kinds_wait_for_nobody(kitchen):
    kitchen.call("first", waits=True)
    assert results(*(kitchen.call(f"other {number}", f"kind {number}") for number in range(3))) == ["alone"] * 3


def test_a_flood_of_one_kind_leaves_threads_for_the_others(kitchen):
    kitchen.call("first", waits=True)
    flood = [kitchen.call(f"flood {number}") for number in range(500)]
    # Three of the four threads are free, however many calls wait.
    assert results(kitchen.call("other", "other kind")) == ["alone"]
    kitchen.go_on.set()
    assert set(results(*flood)) == {"with 100"}


def test_a_call_that_is_cancelled_while_it_waits_is_not_done(kitchen):
    first = kitchen.call("first", waits=True)
    waiting = [kitchen.call(f"waiting {number}") for number in range(3)]
    assert waiting[1].future.cancel()
    kitchen.go_on.set()
    assert results(first, waiting[0], waiting[2]) == ["alone", "with 2", "with 2"]
    with pytest.raises(CancelledError):
        waiting[1].future.result()


def test_the_kind_begins_anew_after_all_its_waiting_calls_were_cancelled(kitchen):
    kitchen.call("first", waits=True)
    gone = [kitchen.call(f"gone {number}") for number in range(3)]
    assert all(call.future.cancel() for call in gone)
    kitchen.go_on.set()
    assert results(kitchen.call("next")) == ["alone"]


def test_each_call_has_its_own_outcome(kitchen):
    outcomes: dict[Future[str], Any] = {}
    kitchen.outcome = lambda call: outcomes[call.future]
    first = kitchen.call("first", waits=True)
    done, refused, to_do_alone = (kitchen.call(name) for name in ("done", "refused", "to do alone"))
    outcomes |= {done.future: "done", refused.future: ValueError("refused"), to_do_alone.future: NotBatchable()}
    kitchen.go_on.set()
    assert results(first, done, to_do_alone) == ["alone", "done", "alone"]
    with pytest.raises(ValueError, match="refused"):
        refused.future.result(60)
    assert kitchen.individually == ["first", "to do alone"]


def test_a_fault_of_the_group_itself_reaches_every_call(kitchen):
    def fails(call: Call) -> Any:
        raise RuntimeError("a fault")

    kitchen.outcome = fails
    first = kitchen.call("first", waits=True)
    waiting = [kitchen.call(f"waiting {number}") for number in range(2)]
    kitchen.go_on.set()
    for call in waiting:
        with pytest.raises(RuntimeError, match="a fault"):
            call.future.result(60)
    assert results(first, kitchen.call("next")) == ["alone", "alone"]


def test_calls_that_wait_while_the_threads_end_are_still_done(kitchen):
    first = kitchen.call("first", waits=True)
    waiting = [kitchen.call(f"waiting {number}") for number in range(3)]
    ending = threading.Thread(target=kitchen.pool.shutdown)
    ending.start()
    kitchen.go_on.set()
    ending.join()
    assert results(first, *waiting) == ["alone", *["with 3"] * 3]


def test_calls_that_wait_too_long_overtake_the_one_under_way(kitchen, monkeypatch):
    monkeypatch.setattr(threads, "PATIENCE_SECONDS", 0.0)
    first = kitchen.call("first", waits=True)
    assert results(kitchen.call("second"), kitchen.call("third")) == ["alone", "alone"]
    assert not first.future.done()
    kitchen.go_on.set()
    assert results(first, kitchen.call("fourth")) == ["alone", "alone"]


def test_calls_look_again_once_the_one_under_way_has_taken_too_long(kitchen, monkeypatch):
    first = kitchen.call("first", waits=True)
    waiting = [kitchen.call(f"waiting {number}") for number in range(3)]
    # One look for all of them.
    [look] = kitchen.later
    look()
    assert not any(call.future.done() for call in waiting)
    monkeypatch.setattr(threads, "PATIENCE_SECONDS", 0.0)
    look()
    assert results(*waiting) == ["with 3"] * 3
    assert not first.future.done()
    # Nobody waits any more.
    look()
    kitchen.go_on.set()
    assert results(first) == ["alone"]


def test_an_only_call_that_cannot_be_batched_fails(kitchen):
    """It would be run again and again."""
    kitchen.calls = CallBatches(lambda batch: [NotBatchable()] * len(batch), 100)
    with pytest.raises(NotBatchable):
        kitchen.call("one").future.result(60)
