"""Progress of long commands, on the standard error: a bar where the work can be counted, else the time it takes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

# Shorter work shows nothing.
_DELAY_SECONDS = 2.0
_INTERVAL_SECONDS = 0.1
_SECOND = 1.0
# A log or a mail is to get few lines.
_INTERVAL_IN_A_FILE_SECONDS = 5.0


def progress_bar(title: str, total: int | None, unit: str, initial: int = 0) -> tqdm[Any]:
    """A bar that appears after two seconds, and is drawn less often if the standard error is not a terminal.

    Without a `total` it counts.
    """
    return tqdm(
        total=total,
        initial=initial,
        desc=f"{title:<9}",
        unit=unit,
        unit_scale=True,
        delay=_DELAY_SECONDS,
        mininterval=_INTERVAL_SECONDS if sys.stderr.isatty() else _INTERVAL_IN_A_FILE_SECONDS,
    )


@contextmanager
def elapsed_time(title: str) -> Iterator[None]:
    """Show on a terminal how long the block takes, from two seconds on."""
    is_over = threading.Event()
    bar_format = "{desc} {elapsed}"
    with tqdm(desc=title, bar_format=bar_format, delay=_DELAY_SECONDS, miniters=1, leave=False, disable=None) as line:
        if line.disable:
            # The standard error is no terminal.
            yield
            return

        def draw() -> None:
            while not is_over.wait(_SECOND):
                line.update()

        thread = threading.Thread(target=draw, name="elapsed-time", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
