"""Imports through the API; the worker runs in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from handlers.services.imports.work import Importer
from tests.builders.api import Organization


@dataclass(frozen=True)
class Imports:
    """The imports of an organization; the worker imports at most `rows` rows in one step."""

    organization: Organization
    rows: int = 500

    @property
    def importer(self) -> Importer:
        """A new worker, which has no open imports."""
        settings = replace(self.organization.api.settings, import_rows=self.rows, import_share=100)
        return Importer(self.organization.api.engine, settings)

    def begin(self, kind: str = "members", file_format: str = "csv", **options: Any) -> str:
        """Create an import; return its path."""
        body = {"kind": kind, "format": file_format, **options}
        record = self.organization.administration.post("/imports", body)["import"]
        return f"/imports/{record['importId']}"

    def upload(self, path: str, *parts: bytes, expect: int = 200) -> Sequence[Any]:
        """Upload the parts of the import's file; return the responses."""
        put = self.organization.administration.put
        return [put(f"{path}/parts/{number}", part, expect=expect) for number, part in enumerate(parts, 1)]

    def queue(self, *parts: bytes | str, **options: Any) -> str:
        """Create an import, upload its parts and start it; return its path."""
        path = self.begin(**options)
        self.upload(path, *(part.encode() if isinstance(part, str) else part for part in parts))
        self.organization.administration.post(f"{path}/start", {"parts": len(parts)}, expect=200)
        return path

    def get(self, path: str) -> Mapping[str, Any]:
        """The current import."""
        return self.organization.administration.get(path)["import"]

    def run(self, *parts: bytes | str, **options: Any) -> Mapping[str, Any]:
        """Create an import, run it to its end and return it."""
        path, importer = self.queue(*parts, **options), self.importer
        while importer.step():
            pass
        return self.get(path)

    def errors(self, record: Mapping[str, Any], **query: Any) -> list[tuple[int, str | None, str]]:
        """(line, column or None, reason) of each row that failed."""
        failures = self.organization.administration.get(f"/imports/{record['importId']}/errors", **query)["results"]
        return [(failure["line"], failure["column"], failure["reason"]) for failure in failures]

    def errors_csv(self, record: Mapping[str, Any]) -> str:
        """The rows that failed, as CSV."""
        path = f"/imports/{record['importId']}/errors"
        return self.organization.administration.request("GET", path, headers={"Accept": "text/csv"}, expect=200).text


def status_read_done_failed(record: Mapping[str, Any]) -> tuple[str, int, int, int]:
    """(status, rows read, rows done, rows failed) of an import, in the order of the name."""
    return record["status"], record["rowsRead"], record["rowsDone"], record["rowsFailed"]
