"""Imports: the jobs, the parts of their files until they are read, and the rows that failed."""

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, PrimaryKeyConstraint, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from persistence.tables.base import (
    belongs_to_organization,
    created_and_updated,
    document,
    execute_on,
    instant,
    metadata,
    refers_to,
    tenant_table,
)

imports = tenant_table(
    "imports",
    "import_id",
    Column("kind", Text, nullable=False),
    Column("format", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("dry_run", Boolean, nullable=False),
    Column("emit_events", Boolean, nullable=False),
    Column("ignore_unknown_columns", Boolean, nullable=False),
    Column("delimiter", Text),
    Column("encoding", Text, nullable=False),
    document("column_names"),
    Column("description", Text),
    Column("status", Text, nullable=False),
    Column("rows_read", BigInteger, nullable=False, server_default=text("0")),
    Column("rows_done", BigInteger, nullable=False, server_default=text("0")),
    Column("rows_failed", BigInteger, nullable=False, server_default=text("0")),
    Column("bytes_total", BigInteger, nullable=False, server_default=text("0")),
    Column("bytes_read", BigInteger, nullable=False, server_default=text("0")),
    # The number of parts, known from the start of the work on.
    Column("parts", Integer),
    # The columns of a CSV file, once they are read.
    Column("header", JSONB(none_as_null=True)),
    # Where the next row begins: its byte in the unpacked file, and its line.
    Column("next_byte", BigInteger, nullable=False, server_default=text("0")),
    Column("next_line", BigInteger, nullable=False, server_default=text("1")),
    Column("worked_ms", BigInteger, nullable=False, server_default=text("0")),
    # How often a worker has died while it did the rows until this number; a step under way counts until it ends.
    Column("crashes", Integer, nullable=False, server_default=text("0")),
    Column("careful_until", BigInteger, nullable=False, server_default=text("0")),
    Column("error", Text),
    *created_and_updated(),
    instant("started_at"),
    instant("finished_at"),
    # Few imports wait at any time, of all organizations.
    Index("ix_imports_to_do", "updated_at", postgresql_where=text("status IN ('queued', 'running')")),
    belongs_to_organization(),
)

import_parts = Table(
    "import_parts",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("import_id", BigInteger, nullable=False),
    Column("part_number", Integer, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    instant("created_at", nullable=False),
    PrimaryKeyConstraint("organization_id", "import_id", "part_number"),
    refers_to("imports", "import_id"),
)

# The content of a part in pieces of one size, all but its last, so that any place of the file is found at once.
import_blocks = Table(
    "import_blocks",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("import_id", BigInteger, nullable=False),
    Column("part_number", Integer, nullable=False),
    Column("block_number", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
    PrimaryKeyConstraint("organization_id", "import_id", "part_number", "block_number"),
    refers_to("import_parts", "import_id", "part_number"),
)
execute_on("after_create", import_blocks, "ALTER TABLE import_blocks ALTER COLUMN content SET STORAGE EXTERNAL")

failed_import_rows = Table(
    "failed_import_rows",
    metadata,
    Column("organization_id", BigInteger, nullable=False),
    Column("import_id", BigInteger, nullable=False),
    Column("line", BigInteger, nullable=False),
    # The column at fault, if it is one.
    Column("column_name", Text),
    Column("reason", Text, nullable=False),
    # The cells of a row of CSV, or the text of any other.
    Column("row", JSONB(none_as_null=True), nullable=False),
    # The member whom the row is about, so that erasing the member erases the row.
    Column("loyalty_member_id", Text),
    PrimaryKeyConstraint("organization_id", "import_id", "line"),
    Index(
        "ix_failed_import_rows_member",
        "organization_id",
        "loyalty_member_id",
        postgresql_where=text("loyalty_member_id IS NOT NULL"),
    ),
    refers_to("imports", "import_id"),
)
