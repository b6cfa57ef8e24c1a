"""Commands on one organization: make it, and make a token for it."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime

import click
from sqlalchemy import Connection

from handlers.commands.context import load_settings, migrated_engine
from persistence import transactions

_LONGEST_LIFETIME = 366 * 24 * 3600


@click.group()
def organizations() -> None:
    """Make organizations, the tenants of the server."""


@organizations.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def create(name: str, as_json: bool) -> None:
    """Create an organization with a ledger, an account for points, a program, an administrator and an API user.

    Prints its keys and the credentials of the API user; the secret cannot be read again.
    """
    from handlers.flows.create_organization import create_organization

    name = name.strip()
    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise click.BadParameter("a name has 1 to 100 printable characters", param_hint="NAME")
    with migrated_engine(load_settings()) as engine:
        created = transactions.run(engine, lambda db: create_organization(db, name=name, now=datetime.now(UTC)))
    values = {_camel(each.name): getattr(created, each.name) for each in dataclasses.fields(created)}
    if as_json:
        click.echo(json.dumps(values))
        return
    width = max(map(len, values))
    for key, value in values.items():
        click.echo(f"{key:<{width}}  {value}")


@click.command()
@click.option("--organization", type=click.IntRange(1), required=True, help="Id of the organization to act in.")
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="Such as members:write; may be repeated.")
@click.option("--admin", is_flag=True, help="All roles, and what only administrators may do.")
@click.option("--system-admin", is_flag=True, help="Everything, in every organization; makes system administrators.")
@click.option(
    "--expires",
    type=click.IntRange(1, _LONGEST_LIFETIME),
    default=3600,
    show_default=True,
    metavar="SECONDS",
    help="How long the token is valid.",
)
def token(organization: int, roles: tuple[str, ...], admin: bool, system_admin: bool, expires: int) -> None:
    """Print a bearer token for an organization."""
    from handlers.tokens import issue_operator_token
    from persistence.organizations import find

    settings = load_settings()
    unknown = set(roles) - known_roles()
    if unknown:
        raise click.BadParameter(
            f"no such role: {', '.join(sorted(unknown))}; there are {', '.join(sorted(known_roles()))}",
            param_hint="--role",
        )
    with migrated_engine(settings) as engine:

        def issue(db: Connection) -> str:
            if find(db, organization) is None:
                raise click.ClickException(f"there is no organization {organization}")
            return issue_operator_token(
                db,
                settings,
                organization_id=organization,
                roles=frozenset(roles),
                is_admin=admin,
                is_system_admin=system_admin,
                lifetime=expires,
                now=datetime.now(UTC),
            )

        click.echo(transactions.run(engine, issue))


def known_roles() -> frozenset[str]:
    """The roles that the documents declare as scopes; those without a colon say who calls and are no roles."""
    import openapi

    schemes = (openapi.bundle(surface)["components"]["securitySchemes"]["oauth2"] for surface in openapi.SURFACES)
    return frozenset(
        scope for scheme in schemes for scope in scheme["flows"]["clientCredentials"]["scopes"] if ":" in scope
    )


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
