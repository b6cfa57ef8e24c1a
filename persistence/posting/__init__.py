"""Posting: the ledger session of a unit of work is opened on locked wallets, changed in memory, and written once."""

from persistence.posting.loading import find_posted, lock_wallets, look_up, open_session
from persistence.posting.lots import find_extended
from persistence.posting.stored import find_awaiting, find_stored, with_orders
from persistence.posting.writing import write_session

__all__ = [
    "find_awaiting",
    "find_extended",
    "find_posted",
    "find_stored",
    "lock_wallets",
    "look_up",
    "open_session",
    "with_orders",
    "write_session",
]
