"""When a message that did not get through is sent again."""

from __future__ import annotations

from datetime import timedelta

# After the first attempt, after the second... in all a little more than 27 hours.
DELAYS = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=10),
)
MOST_ATTEMPTS = len(DELAYS) + 1
# So that what failed together does not come back together.
JITTER = 0.1


def delay_after(attempts: int, fraction: float) -> timedelta | None:
    """How long to wait after so many attempts, None after the last; `fraction` (0 to 1) spreads it by a tenth."""
    if attempts >= MOST_ATTEMPTS:
        return None
    return DELAYS[attempts - 1] * (1 - JITTER + 2 * JITTER * fraction)
