"""Commands on the database as a whole, migrate, distribute, verify and doctor, and on the documents."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import click
import yaml
from sqlalchemy import Connection, Engine, func, make_url, select, text
from sqlalchemy.exc import OperationalError

from handlers.server.commands.context import (
    bad,
    command_engine,
    good,
    json_option,
    load_settings,
    migrated_engine,
    organization_ids,
    print_json,
    with_database,
)
from handlers.server.commands.progress import elapsed_time, progress_bar
from handlers.server.commands.server_address import fault_of_base_url, server_url
from handlers.settings import Settings, unknown_variables
from persistence import audit_log, distribution, embedded, schema, transactions
from persistence.tables.organizations import organizations

_LEAST_SERVER_VERSION = 150_000


# Besides 0 (usable), 1 (a failure) and 2 (an option or setting that cannot be used).
_PENDING_EXIT, _NEWER_EXIT = 3, 4


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; exit code 3: migrations are pending, 4: it is too new.")
@json_option
def migrate(check: bool, as_json: bool) -> None:
    """Bring the database's schema up to date."""
    with with_database(load_settings()) as settings, command_engine(settings) as engine:
        if check:
            _check(engine, as_json)
            return
        with elapsed_time("Migrating"):
            migrations = schema.migrate(engine)
    if as_json:
        print_json({"applied": list(migrations)})
        return
    click.echo(f"Applied: {', '.join(migrations)}" if migrations else "The schema is up to date.")


def _check(engine: Engine, as_json: bool) -> None:
    """Print whether the schema of the database fits this version, and set the exit code accordingly."""
    state = schema.find_state(engine)
    if as_json:
        print_json({"isUsable": state.is_usable, "pending": list(state.pending), "newer": state.newer})
    elif state.newer:
        works = ", which works with it" if state.is_usable else ""
        click.echo(f"The database is newer than this version{works}: it is at revision {state.newer}.")
    elif state.pending:
        number = "1 migration is" if len(state.pending) == 1 else f"{len(state.pending)} migrations are"
        click.echo(f"{number} pending: {', '.join(state.pending)}")
    else:
        click.echo("The schema is up to date.")
    if not state.is_usable:
        raise click.exceptions.Exit(_NEWER_EXIT if state.newer else _PENDING_EXIT)


@click.command()
@click.option(
    "--shards", type=click.IntRange(1), default=distribution.SHARDS, show_default=True, help="Parts of each table."
)
@json_option
def distribute(shards: int, as_json: bool) -> None:
    """Distribute the database over a cluster of Citus.

    By organization: all rows of one are on one node. For a database with the extension citus, on its coordinator, while
    no server runs. Existing rows are moved.
    Run it again after an upgrade: it distributes new tables and leaves the others unchanged.
    """
    with migrated_engine(load_settings(), statement_timeout_ms=0) as engine, elapsed_time("Distributing"):
        tables = distribution.distribute(engine, shards)
    if as_json:
        print_json({"distributed": tables})
        return
    number = "1 table" if len(tables) == 1 else f"{len(tables)} tables"
    click.echo(f"Distributed {number}." if tables else "Everything is distributed.")


@click.command()
@click.option("--organization", type=click.IntRange(1), help="Check this organization only.")
@json_option
def verify(organization: int | None, as_json: bool) -> None:
    """Check members' records, ledger, reports and audit log.

    Checks the ledger's invariants, compares points, badges, coupons, missions, limits, orders, referrals and tiers with
    the records that explain them, checks the figures of reports, and whether the audit log was changed. Prints the
    names of failed checks; exit code 1 then. If none fails, it prints the hash of each organization's last seal of the
    audit log. Keep it elsewhere: it later proves that the log was not truncated.
    """
    from handlers.server.jobs import seal_audit_log
    from handlers.services.verify import CHECKS, find_broken
    from persistence.reports import checks as report_checks

    checks = (*CHECKS, *report_checks.CHECKS)
    violations: list[str] = []
    heads: list[tuple[int, int, str]] = []

    def check(db: Connection, organization_id: int) -> tuple[list[str], tuple[int, str] | None]:
        # All checks look at one state of the records, whatever the servers write meanwhile.
        db.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        return find_broken(db, organization_id, counted_checks()), audit_log.chain_head(db, organization_id)

    def counted_checks() -> Iterator[str]:
        for one_check in checks:
            yield one_check
            bar.update()

    with migrated_engine(load_settings(), statement_timeout_ms=0) as engine:
        ids = organization_ids(engine, organization)
        with progress_bar("Verifying", len(ids) * len(checks), "check") as bar:
            for organization_id in ids:
                seal_audit_log(engine, organization_id)
                faults, head = transactions.run(engine, partial(check, organization_id=organization_id))
                violations += faults
                if head is not None:
                    heads.append((organization_id, *head))
    if as_json:
        seals = [
            {"organizationId": organization_id, "number": number, "hash": digits}
            for organization_id, number, digits in heads
        ]
        print_json({"isSound": not violations, "broken": list(violations), "seals": seals})
        if violations:
            raise click.exceptions.Exit(1)
        return
    for name in violations:
        click.echo(bad(name))
    if violations:
        raise click.exceptions.Exit(1)
    for organization_id, number, digits in heads:
        click.echo(f"Organization {organization_id}: seal {number} of the audit log is {digits}.")
    click.echo("Reports agree with the records.")
    click.echo(good("The ledger is sound."))


@dataclass(frozen=True)
class Finding:
    """One result of the doctor."""

    subject: str
    is_well: bool
    detail: str


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Print what is configured and works.

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
    unknown = unknown_variables(os.environ)
    yield Finding("settings", not unknown, f"not known: {', '.join(unknown)}" if unknown else "all variables are known")
    yield Finding("address", True, f"{settings.host}:{settings.port}, reached by clients at {settings.public_url}")
    yield _examine_server(server_url(settings))
    if settings.database_url:
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
        with embedded.server(settings.home) as url:
            yield from _examine_database(replace(settings, database_url=url))
    except embedded.EmbeddedError as error:
        yield Finding("connection", False, str(error))


def _examine_server(url: str) -> Finding:
    """Check whether a server runs; it need not, but if one responds, it has to be the API."""
    import httpx

    try:
        fault = fault_of_base_url(url)
    except httpx.HTTPError:
        return Finding("server", True, f"none runs at {url}: `loyalty serve` starts one")
    return Finding("server", fault is None, fault or f"running, at {url}")


def _examine_database(settings: Settings) -> Iterator[Finding]:
    with command_engine(settings) as engine:
        try:
            with engine.connect() as db:
                version = db.execute(text("SELECT current_setting('server_version_num')::int")).scalar_one()
                name = db.execute(text("SELECT current_setting('server_version')")).scalar_one()
        except OperationalError as error:
            yield Finding("connection", False, str(error.orig).strip().partition("\n")[0])
            return
        is_recent = version >= _LEAST_SERVER_VERSION
        yield Finding("connection", is_recent, f"PostgreSQL {name}" + ("" if is_recent else ", 15 or later is needed"))
        yield from _examine_schema(engine)


def _examine_schema(engine: Engine) -> Iterator[Finding]:
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
        number = db.execute(select(func.count()).select_from(organizations)).scalar_one()
    yield Finding("organizations", True, str(number))


@click.command()
@click.argument("document", type=click.Choice(["integration", "administration", "asyncapi"]))
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "yaml", "postman", "http"]),
    default="json",
    show_default=True,
    help="The document, or its examples as requests: a Postman collection, a file for the REST clients of editors.",
)
@click.option("--url", default="http://127.0.0.1:8080/v2", show_default=True, help="Where the requests of examples go.")
def openapi(document: str, form: str, url: str) -> None:
    """Print one interface's OpenAPI document.

    Or its examples, as requests that tools can send; `asyncapi` is the AsyncAPI document of the webhooks.
    """
    from openapi import asyncapi, bundle
    from openapi.request_files import http_file, postman

    if document == "asyncapi" and form in ("postman", "http"):
        raise click.UsageError(f"asyncapi has no requests to print as {form}: choose json or yaml")
    content = asyncapi.document() if document == "asyncapi" else bundle(document)
    if form == "yaml":
        click.echo(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120), nl=False)
    elif form == "http":
        click.echo(http_file(content, url), nl=False)
    else:
        output = content if form == "json" else postman(content, url)
        click.echo(json.dumps(output, indent=2, ensure_ascii=False))
