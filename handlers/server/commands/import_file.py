"""The command that imports rows of any kind from a file."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import click

from domain.imports.records import ROLE_OF_KIND
from handlers.server.commands.context import (
    OrganizationCalls,
    bad,
    json_option,
    load_settings,
    migrated_engine,
    organization_by_name,
    print_json,
)
from handlers.server.commands.progress import progress_bar
from handlers.server.garbage import collect_rarely

_PART_BYTES = 16 * 1024 * 1024
_READ_AT_ONCE = 1024 * 1024
# The interval at which the progress of the import is read.
_PROGRESS_SECONDS = 0.5
_ERRORS_AT_ONCE = 10_000
_MAX_PRINTED = 5
_NDJSON_ENDINGS = (".ndjson", ".jsonl", ".ndjson.gz", ".jsonl.gz")


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@organization_by_name
@click.option("--kind", type=click.Choice(list(ROLE_OF_KIND)), default="members", show_default=True)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["csv", "ndjson"]),
    help="The format; by default by the ending of the file's name, else csv.",
)
@click.option("--mode", type=click.Choice(["create", "upsert"]), default="create", show_default=True)
@click.option("--dry-run", is_flag=True, help="Check the rows and change nothing.")
@click.option("--events", is_flag=True, help="Notify campaigns and triggers of each row.")
@click.option(
    "--columns", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A YAML file: field: column."
)
@click.option("--ignore-unknown-columns", is_flag=True, help="Skip columns that are no fields.")
@click.option("--delimiter", type=click.Choice(["comma", "semicolon", "tab", "pipe"]), help="Detected by default.")
@click.option("--encoding", type=click.Choice(["utf-8", "windows-1252"]), default="utf-8", show_default=True)
@click.option(
    "--errors", type=click.Path(dir_okay=False, path_type=Path), help="Write the rows that failed to this file."
)
@json_option
def import_file(
    file: Path,
    organization: str,
    kind: str,
    file_format: str | None,
    mode: str,
    dry_run: bool,
    events: bool,
    columns: Path | None,
    ignore_unknown_columns: bool,
    delimiter: str | None,
    encoding: str,
    errors: Path | None,
    as_json: bool,
) -> None:
    """Import rows from a file.

    FILE is - for the standard input. If a row fails, the others are imported; the exit code is 1 if any row failed, or
    if the file cannot be read. Ctrl-C cancels the import. Running workers help; none is needed.
    """
    format_name = file_format or ("ndjson" if file.name.lower().endswith(_NDJSON_ENDINGS) else "csv")
    body: dict[str, Any] = {
        "kind": kind,
        "format": format_name,
        "mode": mode,
        "dryRun": dry_run,
        "emitEvents": events,
        "ignoreUnknownColumns": ignore_unknown_columns,
        "encoding": encoding,
        "description": file.name[:500],
        **({} if delimiter is None else {"delimiter": delimiter}),
        **({} if columns is None else {"columnNames": _column_names(columns)}),
    }
    with migrated_engine(load_settings()) as engine:
        run = _Run(engine, organization)
        run.begin(body)
        try:
            with _open_file(file) as content:
                run.upload(content, None if str(file) == "-" else file.stat().st_size)
            result = run.work()
        except BaseException:
            run.cancel()
            raise
        failures = run.write_failures(errors, _MAX_PRINTED)
    if as_json:
        print_json(result)
    else:
        _print_result(result, failures, errors)
    if result["status"] != "done" or result["rowsFailed"]:
        raise click.exceptions.Exit(1)


def _column_names(path: Path) -> Any:
    """The columns by the fields of the import, read from a file of YAML."""
    import yaml

    try:
        names = yaml.safe_load(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise click.UsageError(f"{path} is not a text file in UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        location = f"line {mark.line + 1} of {path}" if mark is not None else str(path)
        raise click.UsageError(f"{location} is not valid YAML") from None
    if not isinstance(names, dict):
        raise click.UsageError(f"{path} has no lines of the form `field: column`, such as `loyaltyMemberId: Customer`")
    return names


@contextmanager
def _open_file(file: Path) -> Iterator[IO[bytes]]:
    """Open a file to read bytes; `-` is the standard input."""
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    with file.open("rb") as content:
        yield content


class _Run(OrganizationCalls):
    """One import, created by `begin`."""

    _import_id = 0

    def begin(self, body: Mapping[str, Any]) -> None:
        """Create the import."""
        self._import_id = self.call("createImport", body)["import"]["importId"]

    def upload(self, content: IO[bytes], size: int | None) -> None:
        """Upload the file, and start the import."""
        from handlers.messages.uploads import Upload

        part_count, is_complete = 0, False
        with progress_bar("Uploading", size, "B") as bar:
            while not is_complete:
                part = Upload()
                while len(part) < _PART_BYTES and not is_complete:
                    block = content.read(_READ_AT_ONCE)
                    is_complete = not block
                    part.append(block)
                    bar.update(len(block))
                if len(part):
                    part_count += 1
                    self.call("uploadImportPart", part, importId=self._import_id, partNumber=part_count)
                part.close()
        if not part_count:
            raise click.ClickException("the file is empty")
        self.call("startImport", {"parts": part_count}, importId=self._import_id)

    def work(self) -> Mapping[str, Any]:
        """Import rows until the import has ended; return it."""
        from handlers.services.imports.work import Importer

        collect_rarely()
        importer = Importer(self.engine, replace(self.settings, import_share=100))
        progress_read_at = 0.0
        job = self._read()
        with progress_bar("Importing", job["bytesTotal"], "B") as bar:
            while job["status"] in ("queued", "running"):
                if not importer.step():
                    # A running worker imports the remaining rows.
                    time.sleep(_PROGRESS_SECONDS)
                if time.monotonic() - progress_read_at < _PROGRESS_SECONDS:
                    continue
                progress_read_at = time.monotonic()
                job = self._read()
                # With a refresh, the bar would appear for short imports, too.
                bar.set_postfix_str(f"{job['rowsDone']:,} rows, {job['rowsFailed']:,} failed", refresh=False)
                bar.update(job["bytesRead"] - bar.n)
        return job

    def cancel(self) -> None:
        """Cancel the import after a failure or Ctrl-C; an import that has ended stays unchanged."""
        with contextlib.suppress(click.ClickException):
            self.call("cancelImport", importId=self._import_id)

    def write_failures(self, path: Path | None, limit: int) -> list[Mapping[str, Any]]:
        """Write all failed rows to the file, unless it is None; return the first `limit` failed rows."""
        if path is not None:
            self._write_errors(path)
        return list(self.call("getImportErrors", query={"limit": limit}, importId=self._import_id)["results"])

    def _write_errors(self, path: Path) -> None:
        """Write all failed rows to a file of CSV."""
        from handlers.schemas.imports import ImportErrors, import_errors_csv
        from persistence import imports, transactions
        from persistence.imports import IMPORTS

        job = transactions.run(self.engine, lambda db: IMPORTS.find(db, self.organization_id, self._import_id))
        assert job is not None
        last_line, is_first = 0, True
        bar = progress_bar("Errors", job.rows_failed, "row")
        with path.open("w", encoding="utf-8", newline="") as file, bar:
            while True:
                read = partial(imports.find_failed_rows, job=job, after_line=last_line, limit=_ERRORS_AT_ONCE)
                rows = transactions.run(self.engine, read)
                text = import_errors_csv(ImportErrors(job, rows))
                # Only the first text keeps its line of headings.
                file.write(text if is_first else text.partition("\r\n")[2])
                bar.update(len(rows))
                if len(rows) < _ERRORS_AT_ONCE:
                    return
                last_line = rows[-1].line
                is_first = False

    def _read(self) -> Mapping[str, Any]:
        job: Mapping[str, Any] = self.call("getImport", importId=self._import_id)["import"]
        return job


def _print_result(result: Mapping[str, Any], failures: list[Mapping[str, Any]], errors: Path | None) -> None:
    """Print the totals of an import, and the first failed rows."""
    if result["error"]:
        click.echo(f"{bad(result['status'])}: {result['error']}")
    verb = "would be done" if result["dryRun"] else "done"
    click.echo(f"{result['rowsRead']:,} rows: {result['rowsDone']:,} {verb}, {result['rowsFailed']:,} failed.")
    for row in failures:
        column_text = f", {row['column']}" if row["column"] else ""
        click.echo(f"Line {row['line']}{column_text}: {row['reason']}")
    if result["rowsFailed"] > len(failures):
        click.echo(f"And {result['rowsFailed'] - len(failures):,} more.")
    if result["rowsFailed"]:
        click.echo(f"They are in {errors}." if errors else "--errors FILE writes them to a file to correct.")
