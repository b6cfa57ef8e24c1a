"""Use cases: they take what a request asks for, do it within its database transaction, and return records."""
