"""Commands that do now what workers do periodically: expire points, evaluate tiers, send and remove deliveries."""

from collections.abc import Mapping
from typing import Any

import click
from sqlalchemy import Engine

from handlers.server.commands.context import (
    json_option,
    load_settings,
    migrated_engine,
    organization_ids,
    print_json,
    print_result,
)
from handlers.server.commands.progress import elapsed_time


@click.command()
@click.option("--organization", type=click.IntRange(1), help="Expire points of this organization only.")
@json_option
def expire(organization: int | None, as_json: bool) -> None:
    """Post the expiry of points that are past their date.

    Expired points can never be spent and are in no balance, whether or not this runs; it writes the transactions that
    record this. It may be interrupted and started again at any time, while servers run. Workers run it periodically.
    """
    from handlers.messages.json_text import exact_number

    with migrated_engine(load_settings()) as engine:
        ids = organization_ids(engine, organization)
        with elapsed_time("Expiring"):
            rows = [row for organization_id in ids for row in _expire(engine, organization_id)]
    if as_json:
        print_json({"expired": rows})
        return
    for row in rows:
        wallets = "1 wallet" if row["wallets"] == 1 else f"{row['wallets']:,} wallets"
        account = f"Organization {row['organizationId']}, account {row['ledgerAccountId']}"
        click.echo(f"{account}: {exact_number(row['amount']):,} expired, of {wallets}.")
    if not rows:
        click.echo("Nothing has expired.")


def _expire(engine: Engine, organization_id: int) -> list[dict[str, Any]]:
    """Expire points of one organization; return the amount and the number of wallets of each account."""
    from handlers.server.jobs import expire_points

    expiries = expire_points(engine, organization_id)
    return [
        {
            "organizationId": organization_id,
            "ledgerAccountId": account_id,
            "amount": amount,
            "wallets": expiries.wallets[account_id],
        }
        for account_id, amount in sorted(expiries.amounts.items())
    ]


@click.command()
@click.option("--organization", type=click.IntRange(1), help="Evaluate the tiers of this organization only.")
@click.option(
    "--all", "everyone", is_flag=True, help="Evaluate every member, for example after a tier's threshold has changed."
)
@json_option
def evaluate_tiers(organization: int | None, everyone: bool, as_json: bool) -> None:
    """Evaluate again the tiers that have expired.

    A tier expires if it was set by hand until some moment. Responses show the right tier, and events use it, whether or
    not this command runs; the command stores the tier and reports the move. It may be interrupted and started again at
    any time, while servers run. Workers run it periodically, without `--all`.
    """
    from handlers.server import jobs

    with migrated_engine(load_settings()) as engine:
        ids = organization_ids(engine, organization)
        with elapsed_time("Evaluating"):
            counts = {
                organization_id: jobs.evaluate_tiers(engine, organization_id, everyone) for organization_id in ids
            }
    if as_json:
        rows = [
            {"organizationId": organization_id, "evaluated": count.members, "moved": count.moves}
            for organization_id, count in counts.items()
        ]
        print_json({"organizations": rows})
        return
    for organization_id, count in counts.items():
        if count.members:
            click.echo(f"Organization {organization_id}: {count.members:,} evaluated, {count.moves:,} moved.")
    if not any(count.members for count in counts.values()):
        click.echo("Nothing to evaluate.")


@click.command()
@json_option
def release_answers(as_json: bool) -> None:
    """Release the stored responses to old events.

    For LOYALTY_ANSWERS_KEPT_DAYS the same request with the same key gets the first response. After that the key stays
    used, so the request is refused with `/problems/key-reused`, and reading the event returns its record without the
    result. It continues where the last run ended, and may be interrupted at any time. Workers run it periodically.
    """
    from handlers.server.jobs import RELEASE_ANSWERS

    answers = _run_job(RELEASE_ANSWERS)["answers"]
    text = f"{answers:,} responses released." if answers else "Nothing to release."
    print_result(as_json, {"released": answers}, text)


@click.command()
@click.option("--organization", type=click.IntRange(1), help="Send for the triggers of this organization only.")
@json_option
def deliver(organization: int | None, as_json: bool) -> None:
    """Send due messages to the receivers of webhooks.

    Then it ends; workers do the same all the time. It may be interrupted and started again at any time, also while they
    run: messages that were under way are sent again after a minute.
    """
    from handlers.services.webhooks.send_deliveries import send_due

    settings = load_settings()
    with migrated_engine(settings) as engine:
        if organization is not None:
            # Only to refuse an organization that does not exist.
            organization_ids(engine, organization)
        with elapsed_time("Sending"):
            attempts = send_due(engine, settings, organization_id=organization)
    text = f"Attempts made: {attempts:,}." if attempts else "Nothing to send."
    print_result(as_json, {"attempts": attempts}, text)


@click.command()
@json_option
def remove_deliveries(as_json: bool) -> None:
    """Remove old messages to the receivers of webhooks.

    A message is old if it was made more than LOYALTY_DELIVERIES_KEPT_DAYS days ago. Messages that still wait to be sent
    for an active trigger stay. The command may be interrupted at any time. Workers run it periodically.
    """
    from handlers.server.jobs import REMOVE_DELIVERIES

    count = _run_job(REMOVE_DELIVERIES)["deliveries"]
    text = f"Deliveries removed: {count:,}." if count else "Nothing to remove."
    print_result(as_json, {"removed": count}, text)


def _run_job(name: str) -> Mapping[str, Any]:
    """Run a periodic job now; return its summary."""
    from handlers.server.jobs import run_job

    settings = load_settings()
    with migrated_engine(settings) as engine, elapsed_time("Working"):
        return run_job(engine, settings, name)
