"""The command that checks the settings, the server and the database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from handlers.server.commands.context import (
    bad,
    command_engine,
    first_line_of,
    good,
    json_option,
    load_settings,
    print_json,
    with_database,
)
from handlers.server.commands.server_address import fault_of_base_url, server_url
from handlers.setting_values import host_in_url
from handlers.settings import Settings, unknown_variables
from persistence import embedded

if TYPE_CHECKING:
    from sqlalchemy import Engine

_MIN_POSTGRESQL_VERSION = 150_000
# A replica that has not replayed a change after this time is behind.
_REPLICA_SECONDS = 2.0


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

    Looks at the settings, the database, its schema and its replica; exit code 1 if something is wrong.
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
    unknown_names = unknown_variables(os.environ)
    detail = f"not known: {', '.join(unknown_names)}" if unknown_names else "all variables are known"
    yield Finding("settings", not unknown_names, detail)
    host = host_in_url(settings.host)
    yield Finding(
        "address", is_well=True, detail=f"{host}:{settings.port}, reached by clients at {settings.public_url}"
    )
    yield _examine_server(server_url(settings))
    if settings.database_url:
        yield Finding("database", is_well=True, detail=_url_without_password(settings.database_url))
        yield from _examine_database(settings)
        return
    description = embedded.describe(settings.home)
    if description is None:
        yield Finding(
            "database", is_well=False, detail=f"none in {settings.home.absolute()} yet: `loyalty serve` makes one"
        )
        return
    state = "running" if description.is_running else "not running, started for this look"
    yield Finding(
        "database", is_well=True, detail=f"embedded PostgreSQL {description.major}, {state}, data in {description.data}"
    )
    try:
        with with_database(settings) as settings:
            yield from _examine_database(settings)
    except embedded.EmbeddedError as error:
        yield Finding("connection", is_well=False, detail=str(error))


def _examine_server(url: str) -> Finding:
    """Check that the server at an address is the API; it is no fault if no server responds."""
    import httpx

    try:
        fault = fault_of_base_url(url)
    except httpx.HTTPError:
        return Finding("server", is_well=True, detail=f"no server responds at {url}; `loyalty serve` starts one")
    return Finding("server", fault is None, fault or f"running, at {url}")


def _examine_database(settings: Settings) -> Iterator[Finding]:
    """Check the database, and the read replica if there is one."""
    from sqlalchemy.exc import DBAPIError

    with command_engine(settings) as engine:
        try:
            yield _examine_connection(engine, is_replica=False)
            yield from _examine_schema(engine)
        except DBAPIError as error:
            yield Finding("connection", is_well=False, detail=first_line_of(error))
        if settings.read_database_url:
            yield from _examine_replica(settings, engine)


def _examine_connection(engine: Engine, *, is_replica: bool) -> Finding:
    """Check the version of PostgreSQL, and whether the primary accepts writes; raises DBAPIError."""
    from sqlalchemy import text

    with engine.connect() as db:
        version_number = db.execute(text("SELECT current_setting('server_version_num')::int")).scalar_one()
        version = db.execute(text("SELECT current_setting('server_version')")).scalar_one()
        is_read_only = db.execute(text("SHOW transaction_read_only")).scalar_one() == "on"
    is_recent = version_number >= _MIN_POSTGRESQL_VERSION
    detail = f"PostgreSQL {version}" + ("" if is_recent else ", 15 or later is needed")
    if is_replica:
        return Finding("replica connection", is_recent, detail)
    detail += ", which accepts only reads" if is_read_only else ""
    return Finding("connection", is_recent and not is_read_only, detail)


def _examine_schema(engine: Engine) -> Iterator[Finding]:
    """Check that the database is migrated; count its organizations."""
    from sqlalchemy import text

    fault = _schema_fault(engine, remedy=": run `loyalty migrate`")
    yield Finding("schema", fault is None, fault or "up to date")
    if fault is None:
        with engine.connect() as db:
            number = db.execute(text("SELECT count(*) FROM organizations")).scalar_one()
        yield Finding("organizations", is_well=True, detail=str(number))


def _schema_fault(engine: Engine, *, remedy: str = "") -> str | None:
    """The reason why this version cannot use the schema of a database, and how to migrate it; None if it can."""
    from persistence import schema

    try:
        pending_migrations = schema.find_pending_migrations(engine)
    except schema.SchemaError as error:
        return str(error)
    return f"lacks {', '.join(pending_migrations)}{remedy}" if pending_migrations else None


def _examine_replica(settings: Settings, primary: Engine) -> Iterator[Finding]:
    """Check that the read replica can be reached, has the schema, and has what was committed in the primary."""
    from sqlalchemy.exc import DBAPIError

    yield Finding("replica", is_well=True, detail=_url_without_password(settings.read_database_url))
    with command_engine(replace(settings, database_url=settings.read_database_url)) as replica:
        try:
            yield _examine_connection(replica, is_replica=True)
            fault = _schema_fault(replica)
            yield Finding("replica schema", fault is None, fault or "up to date")
            yield from _examine_lag(primary, replica)
        except DBAPIError as error:
            yield Finding("replica connection", is_well=False, detail=first_line_of(error))


def _examine_lag(primary: Engine, replica: Engine) -> Iterator[Finding]:
    """Check that a standby has the changes of the primary; raises DBAPIError if the standby cannot be reached."""
    from sqlalchemy import text
    from sqlalchemy.exc import DBAPIError

    from persistence import replication

    with replica.connect() as db:
        if not db.execute(text("SELECT pg_is_in_recovery()")).scalar_one():
            yield Finding("replica lag", is_well=True, detail="unknown, it is not a standby")
            return
        try:
            with primary.connect() as primary_db:
                position = replication.end_of_log(primary_db)
        except DBAPIError:
            # Another finding reports that the primary is unavailable, or is a standby itself.
            return
        is_current = replication.wait_until_reached(db, position, _REPLICA_SECONDS)
        seconds = replication.lag(db)
    if is_current:
        yield Finding("replica lag", is_well=True, detail="none, it has all changes of the database")
    elif seconds:
        yield Finding(
            "replica lag", is_well=False, detail=f"it lacks changes, the last one that it has is {seconds:.0f} s old"
        )
    else:
        yield Finding("replica lag", is_well=False, detail="it does not receive the changes of the database")


def _url_without_password(url: str) -> str:
    from sqlalchemy import make_url

    return make_url(url).render_as_string(hide_password=True)
