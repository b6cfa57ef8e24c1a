"""The command that evaluates tiers again."""

import click

from handlers.server.commands.context import load_settings, migrated_engine, organization_ids
from handlers.server.commands.output import json_option, print_json


@click.command()
@click.option("--organization", type=click.IntRange(1), help="Evaluate the tiers of this organization only.")
@click.option(
    "--all", "everyone", is_flag=True, help="Evaluate every member, say after a tier's threshold has changed."
)
@json_option
def evaluate_tiers(organization: int | None, everyone: bool, as_json: bool) -> None:
    """Evaluate again the tiers that have expired.

    These were set by hand until some moment. Answers show the right tier, and events go by it, whether or not this
    runs; it writes it down and reports the move. It may be interrupted and started again at any time, beside running
    servers. Workers run it by the clock, without `--all`.
    """
    from handlers.server import jobs

    with migrated_engine(load_settings()) as engine:
        ids = organization_ids(engine, organization)
        counts = {organization_id: jobs.evaluate_tiers(engine, organization_id, everyone) for organization_id in ids}
    if as_json:
        rows = [
            {"organizationId": organization_id, "evaluated": looked_at, "moved": moves}
            for organization_id, (looked_at, moves) in counts.items()
        ]
        print_json({"organizations": rows})
        return
    for organization_id, (looked_at, moves) in counts.items():
        if looked_at:
            click.echo(f"Organization {organization_id}: {looked_at:,} evaluated, {moves:,} moved.")
    if not any(looked_at for looked_at, _ in counts.values()):
        click.echo("Nothing to evaluate.")
