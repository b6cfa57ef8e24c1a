"""The command that fills a test organization with a sample program, its members and their history."""

from datetime import UTC, datetime

import click
from sqlalchemy import Connection

from handlers.server.commands.context import (
    OPERATOR,
    json_option,
    load_settings,
    migrated_engine,
    named_test_organization,
    print_json,
)
from handlers.server.commands.progress import elapsed_time
from persistence import transactions

_NAME = "Coffee Shop"


@click.command()
@click.argument("name", metavar="SAMPLE", type=click.Choice(["coffee-shop"]))
@click.option(
    "--organization", metavar="NAME", help="An empty test organization, by name or id; else a new one is made."
)
@json_option
def sample(name: str, organization: str | None, as_json: bool) -> None:
    """Fill a test organization with sample records.

    Prints which records were made, and the commands or addresses that show them. The only SAMPLE is `coffee-shop`.
    """
    from domain.organizations import TEST
    from domain.problems import Refusal
    from handlers.http.local import LocalApi
    from handlers.server.samples.coffee_shop import CoffeeShop
    from handlers.services.organizations.create import create_organization
    from persistence import members

    settings = load_settings()
    now = datetime.now(UTC)
    with migrated_engine(settings) as engine:
        api = LocalApi(settings, engine, OPERATOR)

        def fill(db: Connection) -> tuple[int, list[tuple[str, str]]]:
            # Returns the organization's id, and each part of the sample with the command or operation that shows it.
            if organization is None:
                target_id = create_organization(db, name=_NAME, now=now, environment=TEST).organization_id
                at = now
            else:
                existing = named_test_organization(db, organization)
                target_id = existing.organization_id
                if members.find_page(db, target_id, {"limit": 1}).total_count:
                    raise click.ClickException(
                        f"organization {target_id} is not empty: `loyalty organizations reset {target_id}` empties it"
                    )
                at = existing.time_at(now)
            return target_id, CoffeeShop(db, api.calls_within(db, target_id), at).fill()

        try:
            with elapsed_time("Filling"):
                organization_id, examples = transactions.run(engine, fill)
        except Refusal as refusal:
            raise click.ClickException(f"the sample does not fit this organization: {refusal}") from None
    if as_json:
        print_json(
            {
                "organizationId": organization_id,
                "has": [{"what": description, "where": shown_by} for description, shown_by in examples],
            }
        )
        return
    click.echo(f"Organization {organization_id} has now:")
    width = max(len(description) for description, _ in examples)
    for description, shown_by in examples:
        command = f"{shown_by} --organization {organization_id}" if shown_by.startswith("loyalty ") else shown_by
        click.echo(f"  {description:<{width}}  {command}")
    click.echo(f"Try an event: loyalty playground --organization {organization_id}")
    click.echo(f"A token for it: loyalty token --organization {organization_id} --admin")
