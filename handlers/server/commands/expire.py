"""The command that posts what has expired."""

from __future__ import annotations

import click
from sqlalchemy import Engine

from handlers.messages.base import exact_number
from handlers.server.commands.context import load_settings, migrated_engine, organization_ids


@click.command()
@click.option("--organization", type=click.IntRange(1), help="Expire points of this organization only.")
def expire(organization: int | None) -> None:
    """Post the expiry of points that are past their date.

    Expired points can never be spent and are in no balance, whether or not this runs; it writes the transactions that
    say so. It may be interrupted and started again at any time, beside running servers. Workers run it by the clock.
    """
    with migrated_engine(load_settings()) as engine:
        found = [_expire(engine, organization_id) for organization_id in organization_ids(engine, organization)]
    if not any(found):
        click.echo("Nothing has expired.")


def _expire(engine: Engine, organization_id: int) -> bool:
    """Expire points of one organization and print a summary. Returns True if points were expired."""
    from handlers.server.jobs import expire_points

    found = expire_points(engine, organization_id)
    for account_id, amount in sorted(found.amounts.items()):
        number = found.wallets[account_id]
        of = "1 wallet" if number == 1 else f"{number:,} wallets"
        click.echo(f"Organization {organization_id}, account {account_id}: {exact_number(amount):,} expired, of {of}.")
    return bool(found.amounts)
