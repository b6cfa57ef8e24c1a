"""Commands on organizations: create and list them, issue tokens and reset credentials."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from typing import Any

import click
from sqlalchemy import Connection

from domain.calendar import is_zone
from handlers.server.commands.context import load_settings, migrated_engine
from persistence import transactions

_LONGEST_LIFETIME = 366 * 24 * 3600


@click.group()
def organizations() -> None:
    """Make and list organizations, the tenants of the server."""


@organizations.command()
@click.argument("name")
@click.option("--timezone", default="UTC", show_default=True, metavar="ZONE", help="Such as Europe/Madrid.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def create(name: str, timezone: str, as_json: bool) -> None:
    """Create an organization with a ledger, an account for points, a program, an administrator and an API user.

    Prints its keys and the credentials of the API user; the secret cannot be read again.
    """
    from handlers.services.organizations.create import create_organization

    name = name.strip()
    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise click.BadParameter("a name has 1 to 100 printable characters", param_hint="NAME")
    if not is_zone(timezone):
        raise click.BadParameter(f"{timezone} is not a time zone of the IANA database", param_hint="--timezone")
    now = datetime.now(UTC)
    with migrated_engine(load_settings()) as engine:
        created = transactions.run(engine, lambda db: create_organization(db, name=name, now=now, timezone=timezone))
    _print({_camel(field.name): getattr(created, field.name) for field in dataclasses.fields(created)}, as_json)


@organizations.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def list_organizations(as_json: bool) -> None:
    """List the organizations, the oldest first: id, key, day of creation, name."""
    from persistence.organizations import find_all

    with migrated_engine(load_settings()) as engine:
        found = transactions.run(engine, find_all)
    for each in found:
        values = {
            "organizationId": each.organization_id,
            "organizationKey": each.organization_key,
            "createdAt": each.created_at.isoformat(),
            "name": each.name,
        }
        columns = (f"{each.organization_id:>6}", each.organization_key, f"{each.created_at:%Y-%m-%d}", each.name)
        click.echo(json.dumps(values) if as_json else "  ".join(columns))


@click.group()
def credentials() -> None:
    """Credentials of programs that use the API."""


@credentials.command()
@click.option("--organization", type=click.IntRange(1), required=True, help="Id of the organization.")
@click.option("--client-id", help="Whose secret; needed where the organization has several API users.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def reset(organization: int, client_id: str | None, as_json: bool) -> None:
    """Give an API user another secret and print it; the former one and its tokens are no longer valid.

    The permissions of the user stay as they are.
    """
    from handlers.services.organizations.reset_credentials import CredentialsNotFound, reset_credentials

    with migrated_engine(load_settings()) as engine:

        def change(db: Connection) -> tuple[str, str]:
            return reset_credentials(db, organization, client_id, datetime.now(UTC))

        try:
            of_whom, secret = transactions.run(engine, change)
        except CredentialsNotFound as error:
            raise click.ClickException(str(error)) from None
    _print({"clientId": of_whom, "clientSecret": secret}, as_json)


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
    from handlers.services.tokens import issue_operator_token
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
    """The roles that the documents declare as scopes; scopes without a colon describe the caller and are no roles."""
    import openapi

    schemes = (openapi.bundle(surface)["components"]["securitySchemes"]["oauth2"] for surface in openapi.SURFACES)
    return frozenset(
        scope for scheme in schemes for scope in scheme["flows"]["clientCredentials"]["scopes"] if ":" in scope
    )


def _print(values: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(values))
        return
    width = max(map(len, values))
    for key, value in values.items():
        click.echo(f"{key:<{width}}  {value}")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
