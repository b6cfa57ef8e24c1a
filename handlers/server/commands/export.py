"""The command that exports rows."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click
from sqlalchemy import Connection, Engine

from domain.exports import ROLE_OF_KIND
from handlers.server.commands.context import load_settings, migrated_engine
from handlers.server.commands.organizations import named_organization
from persistence import audit_log, exported_rows, transactions
from persistence.audit_log import NewEntry, Origin
from persistence.rows import as_json


@click.command("export")
@click.argument("kind", type=click.Choice(list(ROLE_OF_KIND)))
@click.option("--organization", metavar="NAME", required=True, help="The organization, by name or id.")
@click.option("--format", "file_format", type=click.Choice(["ndjson", "csv"]), default="ndjson", show_default=True)
@click.option("--updated-from", type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"]), help="Rows changed since.")
@click.option("--after", type=click.IntRange(0), default=0, help="Only rows with a greater id.")
def export_rows(kind: str, organization: str, file_format: str, updated_from: datetime | None, after: int) -> None:
    """Write rows to the standard output.

    All are of one moment. Members, and what they have, are in the columns of imports. The last line on the standard
    error tells the id to go on after. The audit log tells of the export.
    """
    since = None if updated_from is None else updated_from.replace(tzinfo=UTC)
    with migrated_engine(load_settings(), statement_timeout_ms=0) as engine:
        organization_id = transactions.run(engine, lambda db: named_organization(db, organization))
        told = {"kind": kind, "format": file_format, "updatedFrom": since, "after": after}
        transactions.run(engine, lambda db: _add_to_audit_log(db, organization_id, told))
        rows, last = _write(engine, organization_id, kind, file_format, since, after)
    click.echo(f"{rows:,} rows, the last id is {last}.", err=True)


def _write(
    engine: Engine, organization_id: int, kind: str, file_format: str, since: datetime | None, after: int
) -> tuple[int, int]:
    """Write the rows; returns how many there were, and the last id."""
    from handlers.services.exports.rows import ROWS, ExportRange, csv_header, csv_row, json_line

    # Lines end as the format says, on every system.
    out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="")
    rows, last = 0, after
    is_csv = file_format == "csv"
    if is_csv:
        out.write(csv_header(kind))
    with engine.connect() as db:
        exported_rows.begin_snapshot(db)
        for row in ROWS[kind](db, ExportRange(organization_id, after, since)):
            out.write(csv_row(kind, row) if is_csv else json_line(row))
            rows, last = rows + 1, row.row_id
    out.flush()
    out.detach()
    return rows, last


def _add_to_audit_log(db: Connection, organization_id: int, told: Mapping[str, Any]) -> None:
    changes = {name: {"from": None, "to": value} for name, value in told.items() if value is not None}
    entry = NewEntry("export", str(organization_id), as_json(changes))
    audit_log.add_entries(db, organization_id, datetime.now(UTC), [(Origin.by_operator("export"), entry)])
