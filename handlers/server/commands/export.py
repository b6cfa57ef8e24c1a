"""The command that exports rows."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from domain.exports import FILTERS_OF_KIND, ROLE_OF_KIND, ExportTooLarge
from domain.problems import InvalidRequest
from handlers.server.commands.context import (
    load_settings,
    migrated_engine,
    named_organization_id,
    organization_by_name,
)
from handlers.server.commands.progress import elapsed_time

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from persistence.exported_rows import ExportRange

_ID = re.compile("[1-9][0-9]{0,17}")


@click.command("export")
@click.argument("kind", type=click.Choice(list(ROLE_OF_KIND)))
@organization_by_name
@click.option("--format", "file_format", type=click.Choice(["ndjson", "csv"]), default="ndjson", show_default=True)
@click.option("--updated-from", type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"]), help="Rows changed since.")
@click.option("--after", type=click.IntRange(0), default=0, help="Only rows with a greater id.")
@click.option("--filter", "filters", metavar="NAME=VALUE", multiple=True, help="Rows that fit, as in createExport.")
def export_rows(
    kind: str,
    organization: str,
    file_format: str,
    updated_from: datetime | None,
    after: int,
    filters: tuple[str, ...],
) -> None:
    """Write rows to the standard output.

    All are of one moment. Members, and what they have, are in the columns of imports. The last line on the standard
    error is the id to continue after. The audit log records the export.
    """
    from persistence import transactions
    from persistence.exported_rows import ExportRange

    since = None if updated_from is None else updated_from.replace(tzinfo=UTC)
    criteria = _filters(kind, filters)
    with migrated_engine(load_settings(), statement_timeout_ms=0) as engine:
        organization_id = transactions.run(engine, lambda db: named_organization_id(db, organization))
        request = {
            "kind": kind,
            "format": file_format,
            "updatedFrom": since,
            "after": after,
            "filters": criteria or None,
        }
        now = transactions.run(engine, lambda db: _audit(db, organization_id, request))
        export_range = ExportRange(organization_id, after, since, criteria, now)
        try:
            row_count, last_id = _write(engine, kind, file_format, export_range)
        except ExportTooLarge as error:
            raise click.ClickException(str(error)) from None
    click.echo(f"{row_count:,} rows, the last id is {last_id}.", err=True)


def _filters(kind: str, options: Sequence[str]) -> dict[str, Any]:
    """The options `NAME=VALUE` as the `filters` of a body of `createExport`."""
    from handlers.messages.base import Body
    from handlers.services.exports.manage import ExportFilters, filters_on_wire

    body: dict[str, Any] = {}
    for name, _, value in (option.partition("=") for option in options):
        if name not in FILTERS_OF_KIND[kind]:
            raise click.UsageError(f"{kind} are filtered by {', '.join(sorted(FILTERS_OF_KIND[kind]))}, not by {name}")
        if name.endswith("Id") and not _ID.fullmatch(value):
            raise click.UsageError(f"{name} must be an id, not {value!r}")
        body[name] = int(value) if name.endswith("Id") else value
    try:
        return filters_on_wire(Body(ExportFilters).load(body))
    except (ValueError, InvalidRequest):
        raise click.UsageError("a filter by time needs a moment such as 2026-01-31T00:00:00Z") from None


def _write(engine: Engine, kind: str, file_format: str, export_range: ExportRange) -> tuple[int, int]:
    """Write the rows; return their number, and the last id, or `after` if there are no rows."""
    from handlers.services.exports.rows import ROWS, csv_header, csv_row, json_line
    from persistence import exported_rows

    # Lines end as the format defines, on every system.
    out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="")
    row_count, last_id = 0, export_range.after
    is_csv = file_format == "csv"
    if is_csv:
        out.write(csv_header(kind))
    with engine.connect() as db, elapsed_time("Exporting"):
        exported_rows.begin_snapshot(db)
        for row in ROWS[kind](db, export_range):
            out.write(csv_row(kind, row) if is_csv else json_line(row))
            row_count, last_id = row_count + 1, row.row_id
    out.flush()
    out.detach()
    return row_count, last_id


def _audit(db: Connection, organization_id: int, request: Mapping[str, Any]) -> datetime:
    """Add the export to the audit log; return the present time of the organization."""
    from persistence import audit_log, organizations
    from persistence.audit_log import NewEntry, Origin
    from persistence.rows import as_json

    changes = {name: {"from": None, "to": value} for name, value in request.items() if value is not None}
    entry = NewEntry("export", str(organization_id), as_json(changes))
    organization = organizations.find_details(db, organization_id)
    now = datetime.now(UTC)
    audit_log.add_entries(
        db, organization_id, now, [(Origin.by_operator("export"), entry)], test_clock=organization.clock_now
    )
    return organization.time_at(now)
