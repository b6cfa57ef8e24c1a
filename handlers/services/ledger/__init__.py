"""Use cases of the ledger: movements of points by request or by expiry."""
