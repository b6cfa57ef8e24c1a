"""The schema as SQLAlchemy Core tables, one module a subject; migrations bring a database to exactly this."""

from persistence.tables import campaigns, events, guards, ledger, members, organizations, programs
from persistence.tables.base import metadata

__all__ = ["campaigns", "events", "guards", "ledger", "members", "metadata", "organizations", "programs"]
