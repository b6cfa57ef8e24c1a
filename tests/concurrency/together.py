"""Calls that start at the same moment."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from domain.problems import Conflict


def together(calls: Iterable[Callable[[], Any]]) -> list[Any]:
    """Make the calls at once, each in its own thread; return their results in order, or raise the first exception."""
    pending: Sequence[Callable[[], Any]] = list(calls)
    answers: list[Any] = [None] * len(pending)
    failures: list[BaseException] = []
    start = threading.Barrier(len(pending))

    def run(index: int) -> None:
        try:
            start.wait()
            answers[index] = pending[index]()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(pending))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return answers


def outcome(call: Callable[[], Any]) -> str:
    """What became of a call: the slug of its refusal, or "done"."""
    try:
        call()
    except Conflict as refusal:
        return refusal.slug
    return "done"


def outcomes(calls: Iterable[Callable[[], Any]], threads: int = 32) -> Counter[str]:
    """What became of calls that many threads make: how often each refusal, or "done"."""
    with ThreadPoolExecutor(threads) as pool:
        return Counter(pool.map(outcome, calls))


def race(*calls: Callable[[], Any]) -> tuple[str, ...]:
    """What became of calls that start at the same moment, in order."""
    return tuple(together([lambda call=call: outcome(call) for call in calls]))
