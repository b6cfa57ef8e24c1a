"""Calls that start at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def together(calls: Iterable[Callable[[], Any]]) -> list[Any]:
    """Make the calls at once, each in a thread of its own; their answers in order, or the first exception raised."""
    made: Sequence[Callable[[], Any]] = list(calls)
    answers: list[Any] = [None] * len(made)
    failures: list[BaseException] = []
    start = threading.Barrier(len(made))

    def run(index: int) -> None:
        try:
            start.wait()
            answers[index] = made[index]()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(made))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return answers
