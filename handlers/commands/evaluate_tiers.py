"""The command that evaluates tiers again."""

from __future__ import annotations

from datetime import UTC, datetime

import click
from sqlalchemy import Connection, Engine

from handlers.commands.context import load_settings, migrated_engine, organization_ids
from persistence import transactions


@click.command()
@click.option("--organization", type=click.IntRange(1), help="Evaluate the tiers of this organization only.")
@click.option(
    "--all", "everyone", is_flag=True, help="Evaluate every member, say after a tier's threshold has changed."
)
def evaluate_tiers(organization: int | None, everyone: bool) -> None:
    """Evaluate again the tiers that have expired.

    These were set by hand until some moment. Answers show the right tier, and events go by it, whether or not this
    runs; it writes it down and reports the move. It may be interrupted and started again at any time, beside running
    servers.
    """
    with migrated_engine(load_settings()) as engine:
        found = {each: _evaluate(engine, each, everyone) for each in organization_ids(engine, organization)}
    for each, (looked_at, moves) in found.items():
        if looked_at:
            click.echo(f"Organization {each}: {looked_at:,} evaluated, {moves:,} moved.")
    if not any(looked_at for looked_at, _ in found.values()):
        click.echo("Nothing to evaluate.")


def _evaluate(engine: Engine, organization_id: int, everyone: bool) -> tuple[int, int]:
    """Evaluate one organization, a bounded number of members at a time; answers how many, and how many moves."""
    from handlers.flows.evaluate_tiers import Evaluated, evaluate_next

    now, after, looked_at, moves = datetime.now(UTC), 0, 0, 0

    def next_batch(db: Connection) -> Evaluated | None:
        return evaluate_next(db, organization_id, after, now, everyone=everyone)

    while (done := transactions.run(engine, next_batch)) is not None:
        after, looked_at, moves = done.last_wallet_id, looked_at + done.members, moves + done.moves
    return looked_at, moves
