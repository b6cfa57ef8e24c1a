"""Errors of the embedded server."""


class EmbeddedError(RuntimeError):
    """The embedded PostgreSQL cannot be used; the message has the reason and a remedy, for a person at a terminal."""
