"""Times of several works that are measured in turns, so that a change of the machine's speed affects all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any


def measure_in_turns(works: Mapping[Any, Callable[[], Any]], times: int) -> dict[Any, float]:
    """Do each work `times` times, in turns; return its median milliseconds, by its name.

    All are done once before they are measured.
    """
    durations: dict[Any, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(times):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            durations[name].append((time.perf_counter() - began) * 1000)
    return {name: statistics.median(work_durations) for name, work_durations in durations.items()}
