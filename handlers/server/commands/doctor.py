"""The command that checks the settings, the server and the database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from handlers.server.commands.context import (
    bad,
    command_engine,
    good,
    json_option,
    load_settings,
    print_json,
    with_database,
)
from handlers.server.commands.server_address import fault_of_base_url, server_url
from handlers.settings import Settings, unknown_variables
from persistence import embedded

if TYPE_CHECKING:
    from sqlalchemy import Engine

_MIN_POSTGRESQL_VERSION = 150_000


@dataclass(frozen=True)
class Finding:
    """One result of `loyalty doctor`."""

    subject: str
    is_well: bool
    detail: str


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Print what is configured, and whether it works.

    Looks at the settings, the database and its schema; exit code 1 if something is wrong.
    """
    findings = list(_examine(load_settings()))
    if as_json:
        print_json(
            {
                "isWell": all(finding.is_well for finding in findings),
                "findings": [_as_json(finding) for finding in findings],
            }
        )
    else:
        for finding in findings:
            click.echo(f"{good('ok ') if finding.is_well else bad('BAD')}  {finding.subject}: {finding.detail}")
    if not all(finding.is_well for finding in findings):
        raise click.exceptions.Exit(1)


def _as_json(finding: Finding) -> dict[str, Any]:
    return {"subject": finding.subject, "isWell": finding.is_well, "detail": finding.detail}


def _examine(settings: Settings) -> Iterator[Finding]:
    """Check the settings, the server and the database, one after the other."""
    unknown = unknown_variables(os.environ)
    yield Finding("settings", not unknown, f"not known: {', '.join(unknown)}" if unknown else "all variables are known")
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    yield Finding("address", True, f"{host}:{settings.port}, reached by clients at {settings.public_url}")
    yield _examine_server(server_url(settings))
    if settings.database_url:
        from sqlalchemy import make_url

        url = make_url(settings.database_url).render_as_string(hide_password=True)
        yield Finding("database", True, url)
        yield from _examine_database(settings)
        return
    description = embedded.describe(settings.home)
    if description is None:
        yield Finding("database", False, f"none in {settings.home.absolute()} yet: `loyalty serve` makes one")
        return
    state = "running" if description.is_running else "not running, started for this look"
    yield Finding("database", True, f"embedded PostgreSQL {description.major}, {state}, data in {description.data}")
    try:
        with with_database(settings) as settings:
            yield from _examine_database(settings)
    except embedded.EmbeddedError as error:
        yield Finding("connection", False, str(error))


def _examine_server(url: str) -> Finding:
    """Check that the server at an address is the API; it is no fault if no server responds."""
    import httpx

    try:
        fault = fault_of_base_url(url)
    except httpx.HTTPError:
        return Finding("server", True, f"no server responds at {url}; `loyalty serve` starts one")
    return Finding("server", fault is None, fault or f"running, at {url}")


def _examine_database(settings: Settings) -> Iterator[Finding]:
    from sqlalchemy import text
    from sqlalchemy.exc import OperationalError

    with command_engine(settings) as engine:
        try:
            with engine.connect() as db:
                version = db.execute(text("SELECT current_setting('server_version_num')::int")).scalar_one()
                name = db.execute(text("SELECT current_setting('server_version')")).scalar_one()
                is_read_only = db.execute(text("SHOW transaction_read_only")).scalar_one() == "on"
        except OperationalError as error:
            yield Finding("connection", False, str(error.orig).strip().partition("\n")[0])
            return
        is_recent = version >= _MIN_POSTGRESQL_VERSION
        detail = f"PostgreSQL {name}" + ("" if is_recent else ", 15 or later is needed")
        detail += ", which accepts only reads" if is_read_only else ""
        yield Finding("connection", is_recent and not is_read_only, detail)
        yield from _examine_schema(engine)


def _examine_schema(engine: Engine) -> Iterator[Finding]:
    from sqlalchemy import text

    from persistence import schema

    try:
        pending_migrations = schema.pending(engine)
    except schema.SchemaError as error:
        yield Finding("schema", False, str(error))
        return
    if pending_migrations:
        yield Finding("schema", False, f"lacks {', '.join(pending_migrations)}: run `loyalty migrate`")
        return
    yield Finding("schema", True, "up to date")
    with engine.connect() as db:
        number = db.execute(text("SELECT count(*) FROM organizations")).scalar_one()
    yield Finding("organizations", True, str(number))
