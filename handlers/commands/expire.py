"""The command that posts what has expired."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import click
from sqlalchemy import Connection, Engine

from handlers.commands.context import load_settings, migrated_engine, organization_ids
from handlers.wire.base import exact_number
from persistence import transactions


@click.command()
@click.option("--organization", type=click.IntRange(1), help="Expire points of this organization only.")
def expire(organization: int | None) -> None:
    """Post the expiry of points that are past their date.

    Expired points can never be spent and are in no balance, whether or not this runs; it writes the transactions that
    say so. It may be interrupted and started again at any time, beside running servers.
    """
    with migrated_engine(load_settings()) as engine:
        found = [_expire(engine, each) for each in organization_ids(engine, organization)]
    if not any(found):
        click.echo("Nothing has expired.")


def _expire(engine: Engine, organization_id: int) -> bool:
    """Expire what is due in one organization, a bounded number of wallets at a time, and say what that was."""
    from handlers.flows.expire_points import Expired, expire_next

    now, after = datetime.now(UTC), 0
    amounts: dict[int, Decimal] = {}
    wallets: dict[int, int] = {}

    def next_batch(db: Connection) -> Expired | None:
        return expire_next(db, organization_id, after, now)

    while (done := transactions.run(engine, next_batch)) is not None:
        after = done.last_wallet_id
        for account_id, amount in done.amounts.items():
            amounts[account_id] = amounts.get(account_id, Decimal(0)) + amount
            wallets[account_id] = wallets.get(account_id, 0) + len(done.wallets[account_id])
    for account_id, amount in sorted(amounts.items()):
        number = wallets[account_id]
        of = "1 wallet" if number == 1 else f"{number:,} wallets"
        click.echo(f"Organization {organization_id}, account {account_id}: {exact_number(amount):,} expired, of {of}.")
    return bool(amounts)
