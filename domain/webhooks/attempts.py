"""When a message that was not delivered is sent again."""

from datetime import timedelta

# Delays after the first attempt, the second one and so on; in total a little more than 27 hours.
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
# Spread, so that messages that failed together are not repeated together.
JITTER = 0.1


def delay_after(attempts: int, fraction: float) -> timedelta | None:
    """The delay after so many attempts, None after the last; `fraction` (0 to 1) spreads it by a tenth."""
    if attempts >= MOST_ATTEMPTS:
        return None
    return DELAYS[attempts - 1] * (1 - JITTER + 2 * JITTER * fraction)
