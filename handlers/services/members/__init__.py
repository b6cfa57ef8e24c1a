"""Use cases of members."""
