"""The garbage collector of long processes."""

from __future__ import annotations

import gc


def pass_over_loaded_objects() -> None:
    """Let the collector pass over all objects that are there now: modules and documents, which never become garbage.

    Each full collection would go through them. Processes that are forked later go on sharing them, too.
    """
    gc.collect()
    gc.freeze()
