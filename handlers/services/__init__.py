"""Use cases: they take the command of a request, do it within its database transaction, and return records."""
