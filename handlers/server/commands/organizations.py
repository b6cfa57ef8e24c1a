"""Commands on organizations: create and list them, issue tokens and reset credentials."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from domain.calendar import is_zone
from domain.organizations import LIVE, TEST
from handlers.server.commands.context import (
    as_fields,
    json_option,
    load_settings,
    migrated_engine,
    named_test_organization,
    print_json,
    print_record,
    print_result,
    print_table,
)
from handlers.server.commands.progress import elapsed_time
from handlers.server.commands.tenant import new_operator_token
from persistence import transactions

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from handlers.services.organizations.create import CreatedOrganization

_MAX_LIFETIME = 366 * 24 * 3600
_LISTED_FIELDS = ("organizationId", "organizationKey", "createdAt", "environment", "name")


@click.group()
def organizations() -> None:
    """Make and list organizations, the tenants of the server."""


@organizations.command()
@click.argument("name")
@click.option("--timezone", default="UTC", show_default=True, metavar="ZONE", help="Such as Europe/Madrid.")
@click.option(
    "--environment",
    type=click.Choice([LIVE, TEST]),
    default=LIVE,
    show_default=True,
    help="A test organization can be emptied; this cannot be changed later.",
)
@json_option
def create(name: str, timezone: str, environment: str, as_json: bool) -> None:
    """Create an organization.

    It has a ledger with an account for points, a program, an administrator and an API user. Prints its keys and the
    credentials of the API user; the secret cannot be read again.
    """
    from handlers.services.organizations.create import create_organization

    name = name.strip()
    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise click.BadParameter("the name must have 1 to 100 printable characters", param_hint="NAME")
    if not is_zone(timezone):
        raise click.BadParameter(f"{timezone} is not a time zone of the IANA database", param_hint="--timezone")
    now = datetime.now(UTC)

    def make(db: Connection) -> CreatedOrganization:
        return create_organization(db, name=name, now=now, timezone=timezone, environment=environment)

    with migrated_engine(load_settings()) as engine:
        created_organization = transactions.run(engine, make)
    fields = as_fields(created_organization)
    # The organization itself comes first.
    own_fields = {name: fields.pop(name) for name in ("organizationId", "organizationKey")}
    print_result(as_json, own_fields | fields)


@organizations.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def list_organizations(as_json: bool) -> None:
    """List the organizations, the oldest first."""
    from persistence.organizations import find_all

    with migrated_engine(load_settings()) as engine:
        all_organizations = transactions.run(engine, find_all)
    if not as_json:
        rows = [
            (row.organization_id, row.organization_key, f"{row.created_at:%Y-%m-%d}", row.environment, row.name)
            for row in all_organizations
        ]
        print_table(["id", "key", "created", "environment", "name"], rows)
        return
    for organization in all_organizations:
        fields = as_fields(organization)
        print_json({name: fields[name] for name in _LISTED_FIELDS})


@organizations.command("reset")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def reset_organization(name: str, yes: bool, as_json: bool) -> None:
    """Empty a test organization.

    NAME is its name or its id. All records go but its users and their credentials. It then has the ledger, the
    account and the program of a new organization, with other ids.
    """
    from handlers.services.organizations.reset import reset_organization as reset_records

    # A single statement may take long for large organizations.
    with migrated_engine(load_settings(), statement_timeout_ms=0) as engine:
        organization_id = transactions.run(engine, lambda db: named_test_organization(db, name).organization_id)
        if not yes:
            click.confirm(f"Remove all records of organization {organization_id}?", abort=True)
        with elapsed_time("Removing"):
            outcome = transactions.run(engine, lambda db: reset_records(db, organization_id, datetime.now(UTC)))
    if as_json:
        print_json({"organizationId": organization_id, "removed": outcome.removed_count, **as_fields(outcome.records)})
        return
    click.echo(f"Organization {organization_id} is empty: {outcome.removed_count:,} rows are gone.")
    print_record(as_fields(outcome.records))


@click.group()
def credentials() -> None:
    """Credentials of programs that use the API."""


@credentials.command()
@click.option("--organization", type=click.IntRange(1), required=True, help="Id of the organization.")
@click.option("--client-id", help="The API user; required if the organization has several.")
@json_option
def reset(organization: int, client_id: str | None, as_json: bool) -> None:
    """Give an API user a new secret and print it.

    The old secret and its tokens are no longer valid. The permissions of the user stay unchanged.
    """
    from handlers.services.organizations.create import ApiCredentials
    from handlers.services.organizations.reset import CredentialsNotFound, reset_credentials

    with migrated_engine(load_settings()) as engine:

        def change(db: Connection) -> ApiCredentials:
            return reset_credentials(db, organization, client_id, datetime.now(UTC))

        try:
            credentials_after = transactions.run(engine, change)
        except CredentialsNotFound as error:
            raise click.ClickException(str(error)) from None
    print_result(as_json, {"clientId": credentials_after.client_id, "clientSecret": credentials_after.client_secret})


@click.command()
@click.option("--organization", type=click.IntRange(1), required=True, help="Id of the organization to act in.")
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="Such as members:write; may be repeated.")
@click.option("--admin", is_flag=True, help="All roles, and what only administrators may do.")
@click.option("--system-admin", is_flag=True, help="Everything, in every organization; makes system administrators.")
@click.option(
    "--expires",
    type=click.IntRange(1, _MAX_LIFETIME),
    default=3600,
    show_default=True,
    metavar="SECONDS",
    help="How long the token is valid.",
)
@json_option
def token(
    organization: int, roles: tuple[str, ...], admin: bool, system_admin: bool, expires: int, as_json: bool
) -> None:
    """Print an access token for an organization."""
    from persistence.organizations import find

    settings = load_settings()
    unknown_roles = set(roles) - known_roles()
    if unknown_roles:
        raise click.BadParameter(
            f"no such role: {', '.join(sorted(unknown_roles))}; there are {', '.join(sorted(known_roles()))}",
            param_hint="--role",
        )
    with migrated_engine(settings) as engine:

        def issue(db: Connection) -> str:
            if find(db, organization) is None:
                raise click.ClickException(f"there is no organization {organization}")
            rights = {"roles": frozenset(roles), "is_admin": admin, "is_system_admin": system_admin}
            return new_operator_token(db, settings, organization, expires, **rights)

        access_token = transactions.run(engine, issue)
    print_result(as_json, {"accessToken": access_token, "expiresIn": expires}, access_token)


def known_roles() -> frozenset[str]:
    """The roles among the scopes of the OpenAPI documents; scopes without a colon describe the caller."""
    import openapi

    schemes = (openapi.bundle(surface)["components"]["securitySchemes"]["oauth2"] for surface in openapi.SURFACES)
    return frozenset(
        scope for scheme in schemes for scope in scheme["flows"]["clientCredentials"]["scopes"] if ":" in scope
    )
