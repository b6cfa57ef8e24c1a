"""The commands about messages to the receivers of webhooks."""

import click

from handlers.server.commands.context import load_settings, migrated_engine, organization_ids
from handlers.server.commands.output import json_option, print_json


@click.command()
@click.option("--organization", type=click.IntRange(1), help="Send for the triggers of this organization only.")
@json_option
def deliver(organization: int | None, as_json: bool) -> None:
    """Send what is due to the receivers of webhooks.

    Then it ends; workers do the same all the time. It may be interrupted and started again at any time, beside them:
    what was under way is sent again after a minute.
    """
    from handlers.services.webhooks.send_deliveries import send_due

    settings = load_settings()
    with migrated_engine(settings) as engine:
        if organization is not None:
            organization_ids(engine, organization)
        attempts = send_due(engine, settings, organization_id=organization)
    if as_json:
        print_json({"attempts": attempts})
        return
    click.echo(f"Attempts made: {attempts:,}." if attempts else "Nothing to send.")


@click.command()
@json_option
def remove_deliveries(as_json: bool) -> None:
    """Remove old messages to the receivers of webhooks.

    Those made more than LOYALTY_DELIVERIES_KEPT_DAYS days ago; what still waits to be sent for an active trigger stays.
    It may be interrupted at any time. Workers run it by the clock.
    """
    from handlers.server.jobs import REMOVE_DELIVERIES, run_job

    settings = load_settings()
    with migrated_engine(settings) as engine:
        removed = run_job(engine, settings, REMOVE_DELIVERIES)["deliveries"]
    if as_json:
        print_json({"removed": removed})
        return
    click.echo(f"Deliveries removed: {removed:,}." if removed else "Nothing to remove.")
