"""The command that posts what has expired."""

from typing import Any

import click
from sqlalchemy import Engine

from handlers.server.commands.context import load_settings, migrated_engine, organization_ids
from handlers.server.commands.output import json_option, print_json


@click.command()
@click.option("--organization", type=click.IntRange(1), help="Expire points of this organization only.")
@json_option
def expire(organization: int | None, as_json: bool) -> None:
    """Post the expiry of points that are past their date.

    Expired points can never be spent and are in no balance, whether or not this runs; it writes the transactions that
    say so. It may be interrupted and started again at any time, beside running servers. Workers run it by the clock.
    """
    with migrated_engine(load_settings()) as engine:
        ids = organization_ids(engine, organization)
        expired_rows = [_expire(engine, organization_id, as_json) for organization_id in ids]
    if as_json:
        print_json({"expired": [row for rows in expired_rows for row in rows]})
    elif not any(expired_rows):
        click.echo("Nothing has expired.")


def _expire(engine: Engine, organization_id: int, is_quiet: bool) -> list[dict[str, Any]]:
    """Expire points of one organization; what was expired of each account, printed unless quiet."""
    from handlers.messages.base import exact_number
    from handlers.server.jobs import expire_points

    expired = expire_points(engine, organization_id)
    rows = []
    for account_id, amount in sorted(expired.amounts.items()):
        number = expired.wallets[account_id]
        rows.append(
            {"organizationId": organization_id, "ledgerAccountId": account_id, "amount": amount, "wallets": number}
        )
        if not is_quiet:
            of = "1 wallet" if number == 1 else f"{number:,} wallets"
            click.echo(
                f"Organization {organization_id}, account {account_id}: {exact_number(amount):,} expired, of {of}."
            )
    return rows
