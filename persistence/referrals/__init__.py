"""Referral programs, codes and logs: data for requests, and for tracking."""

from persistence.referrals.lists import (
    add_codes,
    find_leaderboard,
    find_log_page,
    totals_of,
)
from persistence.referrals.uses import (
    add_logs,
    count_usages,
    find_logs_of_events,
    find_usable,
    find_wallets_of_referrers,
    load_state,
    reverse_logs,
)

__all__ = [
    "add_codes",
    "add_logs",
    "count_usages",
    "find_leaderboard",
    "find_log_page",
    "find_logs_of_events",
    "find_usable",
    "find_wallets_of_referrers",
    "load_state",
    "reverse_logs",
    "totals_of",
]
