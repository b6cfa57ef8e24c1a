"""Exports: the jobs, and their rows until they expire."""

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, Table, Text, text

from domain.exports import ExportJob
from persistence.tables.base import belongs_to_organization, metadata, record_table, refers_to

exports = record_table(
    "exports",
    ExportJob,
    "export_id",
    # Few exports wait at any time, and few are kept, of all organizations.
    Index("ix_exports_to_do", "updated_at", postgresql_where=text("status IN ('queued', 'running')")),
    Index("ix_exports_kept", "finished_at", postgresql_where=text("status = 'done'")),
    belongs_to_organization(),
    types={"attempt": Integer, "parts": Integer},
    defaults={"attempt": "0", "parts": "0", "rows": "0", "bytes": "0"},
)

export_parts = Table(
    "export_parts",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("export_id", BigInteger, nullable=False),
    Column("part_number", Integer, nullable=False),
    # Lines of JSON, which the database compresses.
    Column("content", Text, nullable=False),
    PrimaryKeyConstraint("organization_id", "export_id", "part_number"),
    refers_to("exports", "export_id"),
)
