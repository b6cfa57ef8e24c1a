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
    """Evaluate again the tiers that were set by hand and have expired.

    Answers show the right tier, and events go by it, whether or not this runs; it writes it down and reports the move.
    It may be interrupted and started again at any time, beside running servers.
    """
    with migrated_engine(load_settings()) as engine:
        for each in organization_ids(engine, organization):
            looked_at, moves = _evaluate(engine, each, everyone)
            if looked_at:
                click.echo(f"Organization {each}: {looked_at:,} evaluated, {moves:,} moved.")


def _evaluate(engine: Engine, organization_id: int, everyone: bool) -> tuple[int, int]:
    """Evaluate one organization, a bounded number of members at a time; answers how many, and how many moves."""
    from handlers.flows.evaluate_tiers import Evaluated, evaluate_next

    now, after, looked_at, moves = datetime.now(UTC), 0, 0, 0

    def next_batch(db: Connection) -> Evaluated | None:
        return evaluate_next(db, organization_id, after, now, everyone=everyone)

    while (done := transactions.run(engine, next_batch)) is not None:
        after, looked_at, moves = done.last_wallet_id, looked_at + done.members, moves + done.moves
    return looked_at, moves
