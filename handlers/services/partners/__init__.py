"""Use cases of partners."""
