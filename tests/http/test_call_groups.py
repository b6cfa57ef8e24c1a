"""Calls that wait are run in batches: which calls form a batch, and the outcome of each of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from handlers.call import NotBatchable
from handlers.http import threads
from handlers.http.threads import CallBatches, FairThreads, WaitingCall


class Call(WaitingCall[str]):
    """A call with a name; with `waits`, its run does not end before `go_on` of the runner is set."""

    def __init__(self, name: str, waits: bool) -> None:
        super().__init__()
        self.name, self.waits = name, waits


class Runner:
    """Runs calls of `CallBatches`; a call with `waits` runs until `go_on` is set, so further calls of its kind wait.

    `batches` are the batches of several calls that were run. `individually` are the names of the calls that had a batch
    of their own. `outcome` makes the result of a call in a batch of several.
    """

    def __init__(self, maximum: int = 100, threads: int = 4) -> None:
        self.batches: list[list[Call]] = []
        self.individually: list[str] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.outcome: Callable[[Call], Any] = lambda call: f"in a batch of {len(self.batches[-1])}"
        self.threads = FairThreads(threads, "test")
        self.pool = self.threads.of("organization")
        self.calls = CallBatches(self._run, maximum)
        self.scheduled_checks: list[Callable[[], None]] = []
        # True while further requests have arrived that are not submitted yet.
        self.is_submitting = False

    def _run(self, batch: Sequence[Call]) -> list[Any]:
        if len(batch) > 1:
            self.batches.append(list(batch))
            return [self.outcome(call) for call in batch]
        if batch[0].waits:
            self.begun.set()
            assert self.go_on.wait(60)
        self.individually.append(batch[0].name)
        self.thread_id = threading.get_ident()
        return ["individually"]

    def _schedule(self, seconds: float, check: Callable[[], None]) -> None:
        """Schedule a check as the event loop does: it runs one that is due after it has submitted all requests."""
        if seconds or self.is_submitting:
            self.scheduled_checks.append(check)
        else:
            check()

    def call(self, name: str, kind: str | None = "kind", *, waits: bool = False) -> Call:
        """Submit a call, without a kind (None) as one that is never batched; wait until it runs if it `waits`."""
        call = Call(name, waits)
        if kind is None:
            self.calls.submit_individually(call, self.pool)
        else:
            self.calls.submit(kind, call, self.pool, self._schedule)
        if waits:
            assert self.begun.wait(60)
        return call


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no waiting call overtake the running one, however slow the machine is."""
    monkeypatch.setattr(threads, "PATIENCE_SECONDS", 600.0)


@pytest.fixture
def runner() -> Iterator[Runner]:
    runner = Runner()
    yield runner
    runner.go_on.set()
    runner.threads.close()


def results(*calls: Call) -> list[str]:
    """Wait for the calls; return how each was run, such as "individually" or "in a batch of 3"."""
    return [call.future.result(60) for call in calls]


def test_a_call_is_run_at_once_and_individually_if_none_of_its_kind_runs(runner):
    call, call_of_other_kind = runner.call("call"), runner.call("other", kind="other")
    assert results(call, call_of_other_kind) == ["individually", "individually"]
    assert runner.batches == []


def test_calls_that_have_arrived_together_are_one_batch(runner):
    runner.is_submitting = True
    calls = [runner.call(f"call {number}") for number in range(3)]
    assert not any(call.future.running() or call.future.done() for call in calls)
    [check] = runner.scheduled_checks
    check()
    assert results(*calls) == ["in a batch of 3"] * 3
    assert runner.batches == [calls]


def test_calls_without_a_kind_do_not_wait(runner):
    running_call = runner.call("running", kind=None, waits=True)
    other_calls = [runner.call(f"other {number}", kind=None) for number in range(3)]
    assert results(*other_calls) == ["individually"] * 3
    runner.go_on.set()
    assert results(running_call) == ["individually"]


def test_calls_submitted_while_a_call_of_their_kind_runs_are_the_next_batch(runner):
    running_call = runner.call("running", waits=True)
    waiting_calls = [runner.call(f"waiting {number}") for number in range(5)]
    assert not any(call.future.done() for call in waiting_calls)
    runner.go_on.set()
    assert results(running_call, *waiting_calls) == ["individually", *["in a batch of 5"] * 5]
    assert runner.batches == [waiting_calls]


def test_a_single_waiting_call_is_run_individually(runner):
    running_call = runner.call("running", waits=True)
    waiting_call = runner.call("second")
    runner.go_on.set()
    assert results(running_call, waiting_call) == ["individually", "individually"]


def test_a_batch_has_a_maximum_size_and_the_other_calls_keep_their_order():
    runner = Runner(maximum=3)
    running_call = runner.call("running", waits=True)
    waiting_calls = [runner.call(f"waiting {number}") for number in range(7)]
    runner.go_on.set()
    assert results(running_call, *waiting_calls) == ["individually", *["in a batch of 3"] * 6, "individually"]
    assert runner.batches == [waiting_calls[:3], waiting_calls[3:6]]
    runner.threads.close()


def test_a_batch_runs_on_the_thread_of_the_call_that_it_waited_for(runner):
    threads_of_batches: list[int] = []
    runner.outcome = lambda call: threads_of_batches.append(threading.get_ident())
    running_call = runner.call("running", waits=True)
    waiting_calls = [runner.call(f"waiting {number}") for number in range(2)]
    runner.go_on.set()
    results(running_call, *waiting_calls)
    assert threads_of_batches == [runner.thread_id] * 2


def test_other_work_that_waits_for_a_thread_comes_before_the_next_batch():
    runner = Runner(threads=1)
    order: list[str] = []
    runner.outcome = lambda call: order.append(call.name)
    running_call = runner.call("running", waits=True)
    waiting_calls = [runner.call(f"waiting {number}") for number in range(2)]
    other_work = runner.threads.of("another organization").submit(order.append, "other")
    runner.go_on.set()
    results(running_call, *waiting_calls)
    other_work.result(60)
    assert order == ["other", "waiting 0", "waiting 1"]
    runner.threads.close()


def test_calls_of_other_kinds_do_not_wait(runner):
    runner.call("running", waits=True)
    other_calls = [runner.call(f"other {number}", kind=f"kind {number}") for number in range(3)]
    assert results(*other_calls) == ["individually"] * 3


def test_a_flood_of_one_kind_leaves_threads_for_the_others(runner):
    runner.call("running", waits=True)
    flood = [runner.call(f"flood {number}") for number in range(500)]
    # Three of the four threads are free, however many calls wait.
    assert results(runner.call("other", kind="other kind")) == ["individually"]
    runner.go_on.set()
    # The maximum size of a batch is 100.
    assert set(results(*flood)) == {"in a batch of 100"}


def test_a_call_that_is_cancelled_while_it_waits_is_not_run(runner):
    running_call = runner.call("running", waits=True)
    waiting_calls = [runner.call(f"waiting {number}") for number in range(3)]
    assert waiting_calls[1].future.cancel()
    runner.go_on.set()
    assert results(running_call, waiting_calls[0], waiting_calls[2]) == [
        "individually",
        "in a batch of 2",
        "in a batch of 2",
    ]
    with pytest.raises(CancelledError):
        waiting_calls[1].future.result()


def test_a_call_is_run_after_all_waiting_calls_of_its_kind_were_cancelled(runner):
    runner.call("running", waits=True)
    waiting_calls = [runner.call(f"gone {number}") for number in range(3)]
    assert all(call.future.cancel() for call in waiting_calls)
    runner.go_on.set()
    assert results(runner.call("next")) == ["individually"]


def test_each_call_has_its_own_outcome(runner):
    outcomes: dict[Future[str], Any] = {}
    runner.outcome = lambda call: outcomes[call.future]
    running_call = runner.call("running", waits=True)
    batched_call, failing_call, not_batchable_call = (
        runner.call(name) for name in ("done", "refused", "not batchable")
    )
    outcomes |= {
        batched_call.future: "done",
        failing_call.future: ValueError("refused"),
        not_batchable_call.future: NotBatchable(),
    }
    runner.go_on.set()
    assert results(running_call, batched_call, not_batchable_call) == ["individually", "done", "individually"]
    with pytest.raises(ValueError, match="refused"):
        failing_call.future.result(60)
    assert runner.individually == ["running", "not batchable"]


def test_an_error_of_a_batch_is_the_outcome_of_each_of_its_calls(runner):
    def fails(call: Call) -> Any:
        raise RuntimeError("a fault")

    runner.outcome = fails
    running_call = runner.call("running", waits=True)
    waiting_calls = [runner.call(f"waiting {number}") for number in range(2)]
    runner.go_on.set()
    for call in waiting_calls:
        with pytest.raises(RuntimeError, match="a fault"):
            call.future.result(60)
    assert results(running_call, runner.call("next")) == ["individually", "individually"]


def test_calls_that_wait_while_the_threads_end_are_still_run(runner):
    running_call = runner.call("running", waits=True)
    waiting_calls = [runner.call(f"waiting {number}") for number in range(3)]
    closing_thread = threading.Thread(target=runner.threads.close)
    closing_thread.start()
    runner.go_on.set()
    closing_thread.join()
    assert results(running_call, *waiting_calls) == ["individually", *["in a batch of 3"] * 3]


def test_calls_that_wait_too_long_overtake_the_running_call(runner, monkeypatch):
    monkeypatch.setattr(threads, "PATIENCE_SECONDS", 0.0)
    running_call = runner.call("running", waits=True)
    assert results(runner.call("second"), runner.call("third")) == ["individually", "individually"]
    assert not running_call.future.done()
    runner.go_on.set()
    assert results(running_call, runner.call("fourth")) == ["individually", "individually"]


def test_a_scheduled_check_lets_waiting_calls_overtake_a_call_that_runs_too_long(runner, monkeypatch):
    running_call = runner.call("running", waits=True)
    waiting_calls = [runner.call(f"waiting {number}") for number in range(3)]
    # One check is scheduled for all waiting calls.
    [check] = runner.scheduled_checks
    check()
    assert not any(call.future.done() for call in waiting_calls)
    monkeypatch.setattr(threads, "PATIENCE_SECONDS", 0.0)
    check()
    assert results(*waiting_calls) == ["in a batch of 3"] * 3
    assert not running_call.future.done()
    # A check without waiting calls does nothing.
    check()
    runner.go_on.set()
    assert results(running_call) == ["individually"]


def test_a_single_call_that_is_not_batchable_fails(runner):
    """If it did not fail, it would be retried forever."""
    runner.calls = CallBatches(lambda batch: [NotBatchable()] * len(batch), 100)
    with pytest.raises(NotBatchable):
        runner.call("one").future.result(60)
