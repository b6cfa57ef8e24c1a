"""Whether a write of this process has recently failed because the disk of the database is full."""

import time

# Readiness is checked more often than this. After this time the process is ready again, and may get writes.
_REMEMBERED_SECONDS = 30.0

_full_at = float("-inf")


def record_full_disk() -> None:
    """Remember that a write has failed because the disk of the database is full."""
    global _full_at
    _full_at = time.monotonic()


def is_full() -> bool:
    """True if a write has failed for lack of space in the last half minute."""
    return time.monotonic() - _full_at < _REMEMBERED_SECONDS
