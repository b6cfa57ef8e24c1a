"""Use cases of audiences."""
