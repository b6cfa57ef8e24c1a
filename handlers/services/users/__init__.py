"""Use cases of users and their permissions."""
