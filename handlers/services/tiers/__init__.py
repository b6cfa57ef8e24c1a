"""Use cases of tiers."""
