"""The garbage collector of long processes."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# A batch of a hundred events has thousands of objects at a time, none of which is garbage: calls leave none. The
# collector, which begins after 700 objects by default, would go through them again and again.
_OBJECTS = 10_000


def collect_rarely() -> None:
    """Let the collector wait for many new objects, and skip all existing ones, which never become garbage.

    Those are modules and documents: each full collection would go through them. Processes that are forked later go on
    sharing them, too.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS)


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the collector while many objects are made that stay, which takes a third off the time to load the API."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
