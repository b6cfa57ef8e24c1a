"""The garbage collector of long processes."""

import gc

# A batch of a hundred events has thousands of objects at a time. None of them becomes garbage in reference cycles, but
# the collector, which runs after 700 new objects by default, would search them again and again.
_NEW_OBJECTS = 10_000


def collect_rarely() -> None:
    """Let the collector wait for many new objects, and skip all existing ones, which never become garbage.

    The existing ones are modules and documents, which each full collection would search. Processes that are forked
    later continue to share them, too.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
