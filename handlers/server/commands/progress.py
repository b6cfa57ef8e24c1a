"""Progress of long commands, on the standard error: a bar if the work can be counted, else the elapsed time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

# Nothing is shown for work that takes less time.
_DELAY_SECONDS = 2.0
_INTERVAL_SECONDS = 0.1
_REDRAW_SECONDS = 1.0
# If the output is a file, such as a log or a mail, it gets only few lines.
_INTERVAL_IN_A_FILE_SECONDS = 5.0


def progress_bar(title: str, total: int | None, unit: str, initial: int = 0) -> tqdm[Any]:
    """A bar that appears after two seconds, and is drawn less often if the standard error is not a terminal.

    If `total` is None, it only counts.
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
    """Show the elapsed time of the block on a terminal, beginning after two seconds."""
    is_over = threading.Event()
    bar_format = "{desc} {elapsed}"
    with tqdm(desc=title, bar_format=bar_format, delay=_DELAY_SECONDS, miniters=1, leave=False, disable=None) as line:
        if line.disable:
            # The standard error is not a terminal.
            yield
            return

        def draw() -> None:
            while not is_over.wait(_REDRAW_SECONDS):
                line.update()

        thread = threading.Thread(target=draw, name="elapsed-time", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
