"""Posting: the books of a unit of work are opened on locked wallets, worked on in memory, and written once."""

from persistence.posting.loading import PostedBefore, find_posted, find_stored, lock_wallets, open_books
from persistence.posting.writing import write_books

__all__ = ["PostedBefore", "find_posted", "find_stored", "lock_wallets", "open_books", "write_books"]
