"""Use cases of organizations and their credentials."""
