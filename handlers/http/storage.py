"""The free space of the database as this process knows it: if a write has failed recently for lack of space."""

import time

# Readiness is checked more often than that; writes may be sent here again after it.
_REMEMBERED_SECONDS = 30.0

_full_at = float("-inf")


def note_full() -> None:
    """Remember that a write has failed because the disk of the database is full."""
    global _full_at
    _full_at = time.monotonic()


def is_full() -> bool:
    """True if a write has failed for lack of space in the last half minute."""
    return time.monotonic() - _full_at < _REMEMBERED_SECONDS
