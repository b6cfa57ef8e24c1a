"""The rows of exports, read without HTTP."""

from __future__ import annotations

from typing import Any

from handlers.services.exports.rows import ROWS, json_line
from persistence.exported_rows import ExportRange
from tests.builders.api import Organization


def exported_lines(organization: Organization, kind: str = "members", **criteria: Any) -> list[str]:
    """The rows that an export of the kind would have, as lines of JSON; `criteria` restrict the `ExportRange`."""
    with organization.api.engine.connect() as db:
        return [json_line(row) for row in ROWS[kind](db, ExportRange(organization.id, **criteria))]
