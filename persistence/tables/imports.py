"""Imports and exports: the jobs, the parts of their files, and the rows that failed."""

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from domain.exports import ExportJob
from domain.imports.records import ImportJob, ImportPart
from persistence.tables.base import (
    belongs_to_organization,
    execute_on,
    foreign_key,
    index,
    integers,
    record_table,
    tenant_table,
)

imports = record_table(
    "imports",
    ImportJob,
    "import_id",
    # Not by organization, since few imports wait at any time.
    Index("ix_imports_to_do", "updated_at", postgresql_where=text("status IN ('queued', 'running')")),
    belongs_to_organization(),
    types={"parts": Integer, "header": JSONB(none_as_null=True), "crashes": Integer},
    defaults={
        "rows_read": "0",
        "rows_done": "0",
        "rows_failed": "0",
        "bytes_total": "0",
        "bytes_read": "0",
        "next_byte": "0",
        "next_line": "1",
        "worked_ms": "0",
        "crashes": "0",
        "careful_until": "0",
    },
)

import_parts = record_table(
    "import_parts",
    ImportPart,
    ("import_id", "part_number"),
    foreign_key("imports", "import_id"),
    types={"part_number": Integer},
)

# The content of a part in blocks of one size (the last may be shorter), so that the block of a byte can be computed.
import_blocks = tenant_table(
    "import_blocks",
    ("import_id", "part_number", "block_number"),
    Column("import_id", BigInteger, nullable=False),
    Column("part_number", Integer, nullable=False),
    Column("block_number", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
    foreign_key("import_parts", "import_id", "part_number"),
)
execute_on("after_create", import_blocks, "ALTER TABLE import_blocks ALTER COLUMN content SET STORAGE EXTERNAL")

failed_import_rows = tenant_table(
    "failed_import_rows",
    ("import_id", "line"),
    *integers("import_id", "line"),
    # The column with the fault; null if it is not in one column.
    Column("column_name", Text),
    Column("reason", Text, nullable=False),
    # The cells of a row of CSV, or the text of a row in another format.
    Column("row", JSONB(none_as_null=True), nullable=False),
    # The member whom the row is about, so that erasing the member erases the row.
    Column("loyalty_member_id", Text),
    index("ix_failed_import_rows_member", "loyalty_member_id", where="loyalty_member_id IS NOT NULL"),
    foreign_key("imports", "import_id"),
)

exports = record_table(
    "exports",
    ExportJob,
    "export_id",
    # Not by organization, since few exports wait at any time, and few are kept.
    Index("ix_exports_to_do", "updated_at", postgresql_where=text("status IN ('queued', 'running')")),
    Index("ix_exports_kept", "finished_at", postgresql_where=text("status = 'done'")),
    belongs_to_organization(),
    types={"attempt": Integer, "crashes": Integer, "parts": Integer},
    defaults={"attempt": "0", "crashes": "0", "parts": "0", "rows": "0", "bytes": "0"},
)

export_parts = tenant_table(
    "export_parts",
    ("export_id", "part_number"),
    Column("export_id", BigInteger, nullable=False),
    Column("part_number", Integer, nullable=False),
    # Lines of JSON, which the database compresses.
    Column("content", Text, nullable=False),
    foreign_key("exports", "export_id"),
)
