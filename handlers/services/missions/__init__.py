"""Use cases of missions."""
