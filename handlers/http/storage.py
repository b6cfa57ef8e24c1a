"""What this process knows of the room that the database has: whether a write has failed for want of it lately."""

from __future__ import annotations

import time

# Whoever asks for readiness asks more often than that, and may send a write here again after it.
_REMEMBERED_SECONDS = 30.0

_full_at = float("-inf")


def note_full() -> None:
    """Remember that a write has failed because the disk of the database is full."""
    global _full_at
    _full_at = time.monotonic()


def is_full() -> bool:
    """True if a write has failed for want of room in the last half minute."""
    return time.monotonic() - _full_at < _REMEMBERED_SECONDS
