"""Errors of the embedded server."""


class EmbeddedError(RuntimeError):
    """The embedded PostgreSQL cannot be used; the message says why and what to do, for a person at a terminal."""
