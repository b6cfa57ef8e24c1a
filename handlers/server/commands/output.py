"""The output of commands: for people, in colour where there is a terminal, or as JSON for programs."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """Give a command the option `--json`, as the argument `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)


def print_json(values: Any) -> None:
    """Print a value as one line of JSON."""
    from handlers.messages.base import json_able
    from persistence.engine import to_json

    click.echo(to_json(json_able(values)))


def print_record(values: Mapping[str, Any]) -> None:
    """Print names and values in two columns."""
    width = max(map(len, values))
    for key, value in values.items():
        click.echo(f"{click.style(f'{key:<{width}}', fg='cyan')}  {value}")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows in columns below their headings."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    for number, row in enumerate([headings, *cells]):
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        click.secho(line, bold=number == 0)


def as_fields(record: Any) -> dict[str, Any]:
    """The fields of a dataclass by their names in the API."""
    from domain.fields import wire_name

    return {wire_name(field.name): getattr(record, field.name) for field in dataclasses.fields(record)}


def good(text: str) -> str:
    """A text that says that something is well."""
    return click.style(text, fg="green")


def bad(text: str) -> str:
    """A text that says that something is wrong."""
    return click.style(text, fg="red", bold=True)
