"""Commands on the configuration of organizations as files: export, validate, plan and apply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from sqlalchemy import Connection

from domain.members import differences
from handlers.server.commands.context import (
    OPERATOR,
    command_engine,
    json_option,
    load_settings,
    migrated_engine,
    named_organization_id,
    organization_by_name,
    print_json,
    print_result,
)
from handlers.server.commands.progress import elapsed_time
from persistence import transactions
from persistence.engine import to_json

if TYPE_CHECKING:
    from handlers.http.local import LocalApi
    from handlers.server.configuration_files.changes import Change, ConfigurationOutcome

_SIGNS = {"create": ("+", "green"), "update": ("~", "yellow")}
_MAX_LISTED = 10

_folder = click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
_existing_folder = click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))


@click.group()
def config() -> None:
    """Keep the configuration of an organization as YAML files, one for each record."""


@config.command()
@_folder
@organization_by_name
@click.option("--replace", is_flag=True, help="Remove the files of an earlier export from the FOLDER first.")
@json_option
def export(folder: Path, organization: str, replace: bool, as_json: bool) -> None:
    """Write the configuration of an organization to a FOLDER.

    Members, codes of coupons and secrets of triggers are left out.
    """
    from handlers.server.configuration_files.changes import export_records
    from handlers.server.configuration_files.kinds import KIND_OF
    from handlers.server.configuration_files.yaml_files import texts_of

    earlier_files = [path for kind in KIND_OF for path in sorted((folder / kind).glob("*.yaml"))]
    if earlier_files and not replace:
        raise click.ClickException(f"{folder} already contains files of an export: use --replace to replace them")
    with _print_faults(as_json), migrated_engine(load_settings()) as engine, elapsed_time("Exporting"):
        api = _api(engine)
        records_by_ref = transactions.run(
            engine, lambda db: export_records(api, api.calls_within(db, named_organization_id(db, organization)))
        )
    for path in earlier_files:
        path.unlink()
    for name, text in texts_of(records_by_ref).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    count = len(records_by_ref)
    print_result(as_json, {"folder": str(folder), "records": count}, f"{count} records are in {folder}.")


@config.command()
@_existing_folder
@json_option
def validate(folder: Path, as_json: bool) -> None:
    """Check the form of the files of a FOLDER.

    It needs no organization and no database, so it cannot check which records exist. Fields that only a new record
    needs may be missing, with a warning.
    """
    from handlers.server.configuration_files.changes import check_files
    from handlers.server.configuration_files.yaml_files import FaultyFiles, read_folder

    # The engine never connects, so there need not be a database.
    with _print_faults(as_json), command_engine(load_settings(database_url="postgresql://")) as engine:
        files = read_folder(folder)
        with elapsed_time("Checking"):
            faults, warnings = check_files(_api(engine), files)
        if faults:
            raise FaultyFiles(faults)
    if as_json:
        print_json({"records": len(files), "faults": [], "warnings": warnings})
        return
    _print_warnings(warnings)
    click.echo(f"{len(files)} records have the form that they need. `plan` checks the references to other records.")


@config.command()
@_existing_folder
@organization_by_name
@json_option
def plan(folder: Path, organization: str, as_json: bool) -> None:
    """Show what `apply` would change.

    Field by field, and what it would refuse. Nothing is changed.
    """
    outcome = _apply(folder, organization, as_json, is_committed=False)
    if as_json:
        print_json(_outcome_json(outcome))
    else:
        _print_outcome(outcome, "to create", "to change")


@config.command("apply")
@_existing_folder
@organization_by_name
@json_option
def apply_files(folder: Path, organization: str, as_json: bool) -> None:
    """Create and change records by the files of a FOLDER.

    All of them, or nothing. Records that are in no file, and fields that a file leaves out, stay unchanged.
    """
    outcome = _apply(folder, organization, as_json, is_committed=True)
    if as_json:
        secrets = [{"record": str(ref), "secret": secret} for ref, secret in outcome.secrets]
        print_json({**_outcome_json(outcome), "secrets": secrets})
        return
    _print_outcome(outcome, "created", "changed")
    for ref, secret in outcome.secrets:
        click.echo(f"The secret of {ref}, which cannot be read again: {secret}")


class _RolledBack(Exception):
    """Rolls back a database transaction whose changes are only to be shown."""


def _apply(folder: Path, organization: str, as_json: bool, *, is_committed: bool) -> ConfigurationOutcome:
    """Apply the files of a folder; return the changes, which are rolled back unless `is_committed`."""
    from handlers.server.configuration_files.changes import apply
    from handlers.server.configuration_files.yaml_files import read_folder

    outcomes: list[ConfigurationOutcome] = []

    def work(db: Connection) -> None:
        outcomes.append(apply(api, api.calls_within(db, named_organization_id(db, organization)), files))
        if not is_committed:
            raise _RolledBack

    with _print_faults(as_json):
        files = read_folder(folder)
        with migrated_engine(load_settings()) as engine:
            api = _api(engine)
            with suppress(_RolledBack), elapsed_time("Applying" if is_committed else "Comparing"):
                transactions.run(engine, work)
    # If the transaction was retried, the outcome of the last attempt counts.
    return outcomes[-1]


def _api(engine: Any) -> LocalApi:
    from handlers.http.local import LocalApi

    return LocalApi(load_settings(), engine, OPERATOR)


@contextmanager
def _print_faults(as_json: bool) -> Iterator[None]:
    """Print the faults of files that the block raises, one per line or as JSON, without a traceback."""
    from handlers.server.configuration_files.yaml_files import FaultyFiles

    try:
        yield
    except FaultyFiles as error:
        if as_json:
            print_json({"faults": error.faults})
            raise click.exceptions.Exit(1) from None
        raise click.ClickException("\n".join(error.faults)) from None


def _outcome_json(outcome: ConfigurationOutcome) -> dict[str, Any]:
    """The outcome in the types of JSON, with records by their names in files."""
    changes = [
        {
            "record": str(change.ref),
            "action": change.action,
            "fields": [{"field": name, "from": before, "to": after} for name, before, after in _fields(change)],
        }
        for change in outcome.changes
    ]
    return {
        "faults": [],
        "changes": changes,
        "unchanged": outcome.unchanged,
        "inNoFile": list(map(str, outcome.in_no_file)),
        "warnings": outcome.warnings,
    }


def _print_outcome(outcome: ConfigurationOutcome, creation_word: str, update_word: str) -> None:
    """Print each change with its fields, then the warnings and the totals."""
    for change in outcome.changes:
        sign, colour = _SIGNS[change.action]
        click.echo(click.style(f"{sign} {change.ref}", fg=colour))
        for name, before, after in _fields(change):
            click.echo(
                f"    {name}: {click.style(to_json(before), fg='red')} -> {click.style(to_json(after), fg='green')}"
            )
    _print_warnings(outcome.warnings)
    counts = Counter(change.action for change in outcome.changes)
    click.echo(f"{counts['create']} {creation_word}, {counts['update']} {update_word}, {outcome.unchanged} unchanged.")
    if outcome.in_no_file:
        names = ", ".join(map(str, outcome.in_no_file[:_MAX_LISTED]))
        more = len(outcome.in_no_file) - _MAX_LISTED
        click.echo(
            f"These records are in no file and stay unchanged: {names}{f' and {more} more' if more > 0 else ''}."
        )


def _print_warnings(warnings: list[str]) -> None:
    for warning in warnings:
        click.echo(click.style(f"Warning: {warning}.", fg="yellow"))


def _fields(change: Change) -> Iterator[tuple[str, Any, Any]]:
    """The parts of fields that differ, each as (name, stored value, value of the file)."""
    for name, before, after in change.fields:
        for part, sides in differences({name: before}, {name: after}).items():
            yield part, _refs_to_texts(sides["from"]), _refs_to_texts(sides["to"])


def _refs_to_texts(value: Any) -> Any:
    """A value of a change in the types of JSON; a reference to a record becomes its text, such as `badge/Gold`."""
    from handlers.messages.json_text import to_json_value
    from handlers.server.configuration_files.yaml_files import Ref

    if isinstance(value, Ref):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _refs_to_texts(part) for name, part in value.items()}
    return [_refs_to_texts(part) for part in value] if isinstance(value, list) else to_json_value(value)
