"""Use cases of badges."""
