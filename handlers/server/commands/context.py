"""Parts that commands share: settings, database, output, and failures reported in one line."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from handlers.settings import SettingError, Settings
from persistence import embedded

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.exc import DBAPIError

    from domain.organizations import Organization

# The caller of operations in the audit log.
OPERATOR = "operator"


class SettingFailure(click.ClickException):
    """A setting that cannot be used; exit code 2, as for an invalid option."""

    exit_code = 2


class Group(click.Group):
    """A group of commands whose expected failures are one line on the standard error, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn expected failures into a message and an exit code."""
        try:
            return super().invoke(ctx)
        except SettingError as error:
            raise SettingFailure(str(error)) from None
        except embedded.EmbeddedError as error:
            raise click.ClickException(str(error)) from None
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            text = _failure_of_database(error)
            if text is None:
                raise
            raise click.ClickException(text) from None


def load_settings(**options: str | int | None) -> Settings:
    """Read the settings from the environment; options by field name take precedence unless they are None."""
    overrides = {f"LOYALTY_{name.upper()}": str(value) for name, value in options.items() if value is not None}
    return Settings.from_environment({**os.environ, **overrides})


@contextmanager
def with_database(settings: Settings) -> Iterator[Settings]:
    """Settings whose `database_url` can be connected to.

    It is the configured database, or the embedded one, whose server runs until the end of the block.
    """
    if settings.database_url:
        yield settings
        return
    from handlers.server.commands.progress import elapsed_time

    with ExitStack() as stack:
        # The start takes seconds if the database is new.
        with elapsed_time("Starting the database"):
            url = stack.enter_context(embedded.server(settings.home))
        yield replace(settings, database_url=url)


@contextmanager
def migrated_engine(settings: Settings, *, statement_timeout_ms: int | None = None) -> Iterator[Engine]:
    """An engine for a command; refuses a database that lacks migrations, and names the command that runs them.

    If there is no embedded database yet, none is created.
    """
    refuse_without_database(settings)
    from persistence import schema

    with with_database(settings) as settings, command_engine(settings, statement_timeout_ms) as engine:
        pending_migrations = schema.find_pending_migrations(engine)
        if pending_migrations:
            raise click.ClickException(
                f"the database lacks {len(pending_migrations)} migration(s): run `loyalty migrate` first"
            )
        yield engine


def refuse_without_database(settings: Settings) -> None:
    """Refuse a home that has no embedded database yet, if the settings name no other database."""
    if not settings.database_url and embedded.describe(settings.home) is None:
        raise click.ClickException(
            f"there is no database in {settings.home.absolute()}: run this where the server was started, or have"
            " LOYALTY_HOME name the place of its database; to make a new one, run `loyalty migrate` first"
        )


def organization_ids(engine: Engine, organization: int | None) -> list[int]:
    """The ids of all organizations, or only the id `organization`; refuses an organization that does not exist."""
    from sqlalchemy import select

    from persistence.tables.organizations import organizations

    statement = select(organizations.c.organization_id).order_by(organizations.c.organization_id)
    if organization is not None:
        statement = statement.where(organizations.c.organization_id == organization)
    with engine.connect() as db:
        ids = list(db.execute(statement).scalars())
    if organization is not None and not ids:
        raise click.ClickException(f"there is no organization {organization}")
    return ids


def organization_or_only_one(engine: Engine, organization: int | None) -> int:
    """The id of an organization that exists, by default of the only one; a UsageError if there are none or several."""
    ids = organization_ids(engine, organization)
    if len(ids) != 1:
        if not ids:
            raise click.UsageError("there is no organization yet: `loyalty organizations create` creates one")
        raise click.UsageError(
            f"there are {len(ids)} organizations: name one by --organization; `loyalty organizations list` lists them"
        )
    return ids[0]


class OrganizationCalls:
    """The administration operations of one organization, given by name or id, called in this process."""

    def __init__(self, engine: Engine, organization: str) -> None:
        from persistence import transactions

        self.engine = engine
        self.settings = load_settings()
        # Before the operations are loaded, which takes a second: so a wrong name is reported at once.
        self.organization_id = transactions.run(engine, lambda db: named_organization_id(db, organization))
        from handlers.http.local import LocalApi

        self._api = LocalApi(self.settings, engine, OPERATOR)

    def call(self, operation_id: str, body: Any = None, query: Mapping[str, Any] | None = None, **path: Any) -> Any:
        """Return the body of the response; a refusal ends the command."""
        from domain.problems import Refusal
        from persistence import transactions

        def work(db: Connection) -> Any:
            calls = self._api.calls_within(db, self.organization_id)
            return calls.administration(operation_id, body, query=query, **path)

        try:
            return transactions.run(self.engine, work)
        except Refusal as refusal:
            raise click.ClickException(refusal.detail) from None


def named_organization_id(db: Connection, name: str) -> int:
    """The id of the organization with this name or id."""
    return _find_named_organization(db, name).organization_id


def _find_named_organization(db: Connection, name: str) -> Organization:
    """Find an organization by its name or id; refuse a name of none or several."""
    from persistence.organizations import find_all

    matching_organizations = [
        organization for organization in find_all(db) if name in (organization.name, str(organization.organization_id))
    ]
    if not matching_organizations:
        raise click.ClickException(f"there is no organization {name}")
    if len(matching_organizations) > 1:
        ids = ", ".join(str(organization.organization_id) for organization in matching_organizations)
        raise click.ClickException(f"several organizations are called {name}: name one by its id ({ids})")
    return matching_organizations[0]


def named_test_organization(db: Connection, name: str) -> Organization:
    """The test organization with this name or id; refuses a live one."""
    from domain.organizations import TEST

    organization = _find_named_organization(db, name)
    if organization.environment != TEST:
        raise click.ClickException(f"organization {organization.organization_id} is not a test organization")
    return organization


@contextmanager
def command_engine(settings: Settings, statement_timeout_ms: int | None = None) -> Iterator[Engine]:
    """An engine with two connections, as a unit of work may need a second transaction; closed after the block."""
    from persistence.engine import create_engine

    engine = create_engine(
        settings.database_url,
        threads=2,
        statement_timeout_ms=settings.statement_timeout_ms if statement_timeout_ms is None else statement_timeout_ms,
        lock_timeout_ms=settings.lock_timeout_ms,
        application_name="loyalty-command",
    )
    try:
        yield engine
    finally:
        engine.dispose()


def unwind_on_sigterm() -> None:
    """Let SIGTERM end the program by an exception, so that it stops the embedded server like after Ctrl-C."""

    def leave(number: int, frame: object) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)


def _failure_of_database(error: Exception) -> str | None:
    """The text of an expected failure of the database; None for a fault of the program."""
    from sqlalchemy.exc import DBAPIError, OperationalError

    from persistence.distribution import DistributionError
    from persistence.schema import SchemaError
    from persistence.transactions import is_unavailable

    if isinstance(error, SchemaError | DistributionError):
        return str(error)
    if isinstance(error, OperationalError) or (isinstance(error, DBAPIError) and is_unavailable(error)):
        return f"the database cannot be used: {first_line_of(error)}"
    return None


def first_line_of(error: DBAPIError) -> str:
    """The first line of the database's message, or the kind of error if it has no message."""
    message = str(error.orig).strip()
    return message.splitlines()[0] if message else type(error.orig).__name__


Command = TypeVar("Command", bound=Callable[..., Any])

organization_by_name = click.option(
    "--organization", metavar="NAME", required=True, help="The organization, by name or id."
)


def json_option(command: Command) -> Command:
    """Give a command the option `--json`, as the argument `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)


def print_json(values: Any) -> None:
    """Print a value as one line of JSON."""
    from handlers.messages.json_text import to_json_value
    from persistence.engine import to_json

    click.echo(to_json(to_json_value(values)))


def print_result(as_json: bool, values: Mapping[str, Any], text: str | None = None) -> None:
    """Print values as JSON if `as_json`; else `text`, or for None the names and values in columns."""
    if as_json:
        print_json(values)
    elif text is None:
        print_record(values)
    else:
        click.echo(text)


def print_record(values: Mapping[str, Any]) -> None:
    """Print names and values in two columns, `-` for None."""
    width = max(map(len, values))
    for key, value in values.items():
        click.echo(f"{click.style(f'{key:<{width}}', fg='cyan')}  {'-' if value is None else value}")


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
    """A text for a successful check."""
    return click.style(text, fg="green")


def bad(text: str) -> str:
    """A text for a failed check."""
    return click.style(text, fg="red", bold=True)
