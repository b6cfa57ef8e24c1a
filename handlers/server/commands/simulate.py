"""The command that asks a running server what an event would do for a member."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import click
from sqlalchemy import Connection

from handlers.server.assistant_tools import with_key
from handlers.server.commands.api_client import ApiClient
from handlers.server.commands.context import (
    bad,
    good,
    json_option,
    load_settings,
    migrated_engine,
    print_json,
    print_table,
    the_organization,
)
from handlers.server.commands.server_address import server_url
from handlers.settings import Settings
from persistence import transactions
from persistence.engine import from_json

_TOKEN_SECONDS = 300
_PURCHASE = "member-purchase-order-created"

base_url_option = click.option(
    "--base-url", help="Where the server is reached (LOYALTY_BASE_URL); else the server of this folder, on any port."
)
organization_option = click.option(
    "--organization", type=click.IntRange(1), help="Id of the organization; needed if there are several."
)


@click.command()
@click.argument("loyalty_member_id")
@click.option("--total", help="The total of a purchase, such as 64.55.")
@click.option("--event-type", default=_PURCHASE, show_default=True, help="Another type, with --payload.")
@click.option("--payload", help="The payload of the event as JSON; that of a purchase may have items.")
@click.option("--now", help="Another moment to ask about, such as 2030-05-06T18:00:00Z.")
@organization_option
@base_url_option
@json_option
def simulate(
    loyalty_member_id: str,
    total: str | None,
    event_type: str,
    payload: str | None,
    now: str | None,
    organization: int | None,
    base_url: str | None,
    as_json: bool,
) -> None:
    """Tell what an event would do for a member.

    Asks the running server by a dry run, which changes nothing, and tells why other campaigns do not apply.
    """
    if (total is None) == (payload is None):
        raise click.UsageError("either --total or --payload says what happens")
    event = {
        "loyaltyMemberId": loyalty_member_id,
        "eventType": event_type,
        "payload": _purchase(total) if total is not None else _read_payload(payload or ""),
    }
    body = {"events": [with_key(event)], "executionMode": "dryRun", **({"now": now} if now else {})}
    with _api(load_settings(base_url=base_url), organization, "orders:write") as api:
        [result] = api.post("/events/track", body)["results"]
    if as_json:
        print_json(result)
    else:
        _tell(result)
    if result["status"] == "failed":
        raise click.exceptions.Exit(1)


@contextmanager
def _api(settings: Settings, organization: int | None, role: str) -> Iterator[ApiClient]:
    """The running server, for the bearer of a new token with one role."""
    _, bearer = server_token(settings, organization, frozenset({role}), _TOKEN_SECONDS)
    with ApiClient(server_url(settings), bearer, connections=1) as api:
        yield api


def server_token(
    settings: Settings, organization: int | None, roles: frozenset[str], lifetime: int, token: str | None = None
) -> tuple[int, str]:
    """The organization named, or the only one, and a token with these roles unless one is given."""
    from handlers.services.tokens import issue_operator_token

    if organization is not None and token is not None:
        return organization, token

    with migrated_engine(settings) as engine:
        organization_id = the_organization(engine, organization)

        def issue(db: Connection) -> str:
            return issue_operator_token(
                db,
                settings,
                organization_id=organization_id,
                roles=roles,
                is_admin=False,
                lifetime=lifetime,
                now=datetime.now(UTC),
            )

        return organization_id, token or transactions.run(engine, issue)


def _purchase(total: str) -> dict[str, Any]:
    try:
        amount = Decimal(total)
    except InvalidOperation:
        raise click.BadParameter(f"{total} is not a number", param_hint="--total") from None
    if not amount.is_finite():
        raise click.BadParameter(f"{total} is not a number", param_hint="--total")
    return {"order": {"externalId": "simulated", "total": amount}}


def _read_payload(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError as error:
        raise click.BadParameter(f"it is not JSON: {error}", param_hint="--payload") from None


def _tell(result: dict[str, Any]) -> None:
    if result["status"] == "failed":
        click.echo(f"{bad('failed')}: {result['error']['detail']}")
        return
    effects = [
        (
            effect["campaignCode"] or effect["campaignId"],
            effect["effectId"],
            ", ".join(
                f"{parameter['id']} {parameter['value']}"
                for parameter in effect["params"]
                if parameter.get("value") is not None
            ),
            effect["status"],
        )
        for effect in result["effects"]
    ]
    if effects:
        print_table(["campaign", "effect", "parameters", "status"], effects)
    else:
        click.echo("Nothing would happen.")
    for explanation in result["explain"]:
        name = explanation["campaignCode"] or explanation["campaignId"]
        place = f"{name}, action {explanation['actionId']}" if explanation["actionId"] is not None else str(name)
        reason = explanation.get("reason") or {}
        text = (
            good("applies")
            if explanation["applied"]
            else f"does not apply: {reason.get('label') or reason.get('code')}"
        )
        click.echo(f"{place}: {text}")
