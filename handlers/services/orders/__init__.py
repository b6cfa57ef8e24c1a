"""Use cases of purchase orders."""
