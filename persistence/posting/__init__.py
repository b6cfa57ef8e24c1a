"""Posting: the ledger session of a unit of work is opened on locked wallets, changed in memory, and written once."""

from persistence.posting.loading import (
    find_keys_by_source,
    find_posted,
    find_posted_and_reserve_ids,
    lock_wallets,
    open_session,
)
from persistence.posting.lots import find_extended_lots
from persistence.posting.stored import find_stored, find_waiting_mints, with_orders
from persistence.posting.writing import write_session

__all__ = [
    "find_extended_lots",
    "find_keys_by_source",
    "find_posted",
    "find_posted_and_reserve_ids",
    "find_stored",
    "find_waiting_mints",
    "lock_wallets",
    "open_session",
    "with_orders",
    "write_session",
]
