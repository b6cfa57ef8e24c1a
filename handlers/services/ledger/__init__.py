"""Use cases of the ledger: points that move by request or by time."""
