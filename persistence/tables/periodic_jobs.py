"""The periodic jobs, by name."""

from sqlalchemy import Column, Table, Text
from sqlalchemy.dialects.postgresql import JSONB

from persistence.tables.base import instant, metadata

# Of the installation, not of an organization: each job goes through all of them.
periodic_jobs = Table(
    "periodic_jobs",
    metadata,
    Column("name", Text, primary_key=True),
    instant("next_run_at", nullable=False),
    instant("started_at"),
    instant("finished_at"),
    Column("last_result", JSONB(none_as_null=True)),
    Column("last_error", Text),
)
