"""The garbage collector of long processes."""

import gc

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
