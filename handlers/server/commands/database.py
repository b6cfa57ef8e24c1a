"""Commands on the database as a whole: migrate, distribute and verify."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import click

from handlers.server.commands.context import (
    bad,
    command_engine,
    good,
    json_option,
    load_settings,
    migrated_engine,
    organization_ids,
    print_json,
    print_result,
    with_database,
)
from handlers.server.commands.progress import elapsed_time, progress_bar

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

# Besides 0 (usable), 1 (a failure) and 2 (an option or setting that cannot be used).
_PENDING_EXIT, _NEWER_EXIT = 3, 4


@click.command()
@click.option(
    "--check",
    is_flag=True,
    help="Change nothing. Exit code 3: migrations are pending; 4: the schema is too new for this version.",
)
@json_option
def migrate(check: bool, as_json: bool) -> None:
    """Bring the database's schema up to date."""
    from persistence import schema

    with with_database(load_settings()) as settings, command_engine(settings) as engine:
        if check:
            _check(engine, as_json)
            return
        with elapsed_time("Migrating"):
            migrations = schema.migrate(engine)
    text = f"Applied: {', '.join(migrations)}" if migrations else "The schema is up to date."
    print_result(as_json, {"applied": list(migrations)}, text)


def _check(engine: Engine, as_json: bool) -> None:
    """Print whether the schema of the database fits this version; exit with a code of its own if it does not."""
    from persistence import schema

    state = schema.find_state(engine)
    if as_json:
        print_json({"isUsable": state.is_usable, "pending": list(state.pending), "newer": state.newer})
    elif state.newer:
        works = ", which works with it" if state.is_usable else ""
        click.echo(f"The database is newer than this version{works}: it is at revision {state.newer}.")
    elif state.pending:
        migrations_are = "1 migration is" if len(state.pending) == 1 else f"{len(state.pending)} migrations are"
        click.echo(f"{migrations_are} pending: {', '.join(state.pending)}")
    else:
        click.echo("The schema is up to date.")
    if not state.is_usable:
        raise click.exceptions.Exit(_NEWER_EXIT if state.newer else _PENDING_EXIT)


@click.command()
@click.option("--shards", type=click.IntRange(1), default=32, show_default=True, help="Parts of each table.")
@json_option
def distribute(shards: int, as_json: bool) -> None:
    """Distribute the database over a cluster of Citus.

    All rows of an organization are on one node. Run this on the coordinator of a database with the extension citus,
    while no server runs. Existing rows are moved.
    Run it again after an upgrade: it distributes new tables and leaves the others unchanged.
    """
    from persistence import distribution

    with migrated_engine(load_settings(), statement_timeout_ms=0) as engine, elapsed_time("Distributing"):
        tables = distribution.distribute(engine, shards)
    tables_text = "1 table" if len(tables) == 1 else f"{len(tables)} tables"
    text = f"Distributed {tables_text}." if tables else "Everything is distributed."
    print_result(as_json, {"distributed": tables}, text)


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
    from sqlalchemy import text

    from handlers.server.jobs import seal_audit_log
    from handlers.services.verify import CHECKS, find_faults
    from persistence import audit_log, transactions
    from persistence.reports import checks as report_checks

    checks = (*CHECKS, *report_checks.CHECKS)
    violations: list[str] = []
    heads: list[tuple[int, int, str]] = []

    def check(db: Connection, organization_id: int) -> tuple[list[str], audit_log.ChainHead | None]:
        # All checks read one snapshot of the records, whatever the servers write meanwhile.
        db.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        return find_faults(db, organization_id, counted_checks()), audit_log.find_chain_head(db, organization_id)

    def counted_checks() -> Iterator[str]:
        # Advances the progress bar after each check.
        for check_name in checks:
            yield check_name
            bar.update()

    with migrated_engine(load_settings(), statement_timeout_ms=0) as engine:
        ids = organization_ids(engine, organization)
        with progress_bar("Verifying", len(ids) * len(checks), "check") as bar:
            for organization_id in ids:
                seal_audit_log(engine, organization_id)
                faults, head = transactions.run(engine, partial(check, organization_id=organization_id))
                violations += faults
                if head is not None:
                    heads.append((organization_id, head.seal_number, head.seal_hash))
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
