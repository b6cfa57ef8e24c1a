"""The number of wallets, and of their expired lots, that a transaction of a periodic job works on.

Other calls wait for these wallets, and jobs of other organizations for the end of the transaction.
"""

FIRST_WALLETS, MAX_WALLETS = 50, 500
MAX_EXPIRED_LOTS = MAX_DUE_ROWS = 2_000
TRANSACTION_SECONDS = 1.0


def next_limit(limit: int, seconds: float) -> int:
    """The maximum number of wallets of the next transaction, after one of `limit` wallets that took `seconds`.

    So many wallets take about a second, but they are at most twice as many as before.
    """
    return max(1, min(int(limit * TRANSACTION_SECONDS / max(seconds, 0.001)), 2 * limit, MAX_WALLETS))
