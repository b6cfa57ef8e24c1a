"""The garbage collector of long processes."""

import gc

# A batch of a hundred events has thousands of objects at a time. None of them becomes garbage in reference cycles, but
# the collector, which runs after 700 new objects by default, would search them again and again.
_NEW_OBJECTS = 10_000


def collect_rarely() -> None:
    """Collect garbage only after many new objects were created, and never search the objects that exist now.

    These are modules and documents, which never become garbage and which each full collection would search. Processes
    that are forked later continue to share them, too.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
