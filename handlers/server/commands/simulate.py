"""The command that simulates an event on a running server: what a member would get, and the gap to the next reward."""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import click
from sqlalchemy import Connection, Engine

from handlers.server.commands.api_client import ApiClient
from handlers.server.commands.context import (
    good,
    json_option,
    load_settings,
    migrated_engine,
    organization_or_only_one,
    print_json,
    print_table,
)
from handlers.server.commands.server_address import server_url
from handlers.server.commands.tenant import new_operator_token
from handlers.settings import Settings
from persistence import transactions
from persistence.engine import from_json, to_json

_TOKEN_SECONDS = 300
_KEY = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_PURCHASE = "member-purchase-order-created"

base_url_option = click.option(
    "--base-url", help="Where the server is reached (LOYALTY_BASE_URL); else the server of this folder, on any port."
)
organization_option = click.option(
    "--organization", type=click.IntRange(1), help="Id of the organization; needed if there are several."
)


@click.command()
@click.argument("loyalty_member_id", required=False)
@click.option("--total", help="The total of a purchase, such as 64.55.")
@click.option("--event-type", default=_PURCHASE, show_default=True, help="Another type, with --payload.")
@click.option("--payload", help="The payload of the event as JSON; that of a purchase may have items.")
@click.option("--code", "codes", multiple=True, help="The code of a coupon that the customer presents; repeatable.")
@click.option("--now", help="Another moment to ask about, such as 2030-05-06T18:00:00Z.")
@organization_option
@base_url_option
@json_option
def simulate(
    loyalty_member_id: str | None,
    total: str | None,
    event_type: str,
    payload: str | None,
    codes: tuple[str, ...],
    now: str | None,
    organization: int | None,
    base_url: str | None,
    as_json: bool,
) -> None:
    """Print what an event would give a member, or a newcomer if none is named.

    Asks the running server, which changes nothing: what is earned, what can be redeemed, what is missing to the next
    reward, and why other campaigns do not apply.
    """
    if (total is None) == (payload is None):
        raise click.UsageError("give one of --total and --payload")
    body = {
        **(_purchase(total) if total is not None else _event(event_type, _read_payload(payload or ""))),
        "loyaltyMemberId": loyalty_member_id,
        "at": now,
        "couponCodes": [*codes],
        "include": ["earn", "redeem", "next", "explain"],
    }
    settings = load_settings(base_url=base_url)
    with migrated_engine(settings) as engine:
        organization_id = organization_or_only_one(engine, organization)
        bearer = _issue_token(engine, settings, organization_id, frozenset({"orders:read"}), _TOKEN_SECONDS)
        with ApiClient(server_url(settings), bearer, connections=1) as api:
            simulation = api.post("/simulations", body)["simulation"]
        if as_json:
            print_json(simulation)
        else:
            _print(_replace_keys(simulation, _find_names(engine, organization_id, simulation)))


def _find_names(engine: Engine, organization_id: int, simulation: Mapping[str, Any]) -> Mapping[str, str]:
    """Find the names of the records whose keys are in a simulation; return them by key."""
    from persistence.record_names import find_names

    keys = {*_KEY.findall(to_json(simulation))}
    return transactions.run(engine, lambda db: find_names(db, organization_id, keys))


def _replace_keys(value: Any, names: Mapping[str, str]) -> Any:
    """Replace each key in a value of JSON by its name, if it has one."""
    if isinstance(value, Mapping):
        return {field: _replace_keys(part, names) for field, part in value.items()}
    if isinstance(value, list):
        return [_replace_keys(part, names) for part in value]
    return names.get(value, value) if isinstance(value, str) else value


def server_token(
    settings: Settings, organization: int | None, roles: frozenset[str], lifetime: int, token: str | None = None
) -> tuple[int, str]:
    """Return the id of an organization, and a token for it.

    The `organization` None means the server's only organization. If `token` is None, a new token with these roles is
    issued.
    """
    if organization is not None and token is not None:
        return organization, token
    with migrated_engine(settings) as engine:
        organization_id = organization_or_only_one(engine, organization)
        return organization_id, token or _issue_token(engine, settings, organization_id, roles, lifetime)


def _issue_token(engine: Engine, settings: Settings, organization_id: int, roles: frozenset[str], lifetime: int) -> str:
    def issue(db: Connection) -> str:
        return new_operator_token(db, settings, organization_id, lifetime, roles=roles)

    return transactions.run(engine, issue)


def _purchase(total: str) -> dict[str, Any]:
    """The payload of an order with this total."""
    try:
        amount = Decimal(total)
    except InvalidOperation:
        raise click.BadParameter(f"{total} is not a number", param_hint="--total") from None
    if not amount.is_finite():
        raise click.BadParameter(f"{total} is not a number", param_hint="--total")
    return {"order": {"total": amount}}


def _event(event_type: str, payload: Any) -> dict[str, Any]:
    """The part of the body that describes the event. A purchase is sent as `order`, which needs no externalId."""
    if event_type == _PURCHASE and isinstance(payload, dict) and payload.keys() == {"order"}:
        return payload
    return {"event": {"eventType": event_type, "payload": payload}}


def _read_payload(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError as error:
        raise click.BadParameter(f"the payload is not JSON: {error}", param_hint="--payload") from None


def _print(simulation: Mapping[str, Any]) -> None:
    """Print the tables of a simulation that have rows; then for each campaign or action if it applies, or why not."""
    earn = simulation["earn"]
    if not (earn["effects"] or [*_gains(earn)]):
        click.echo("Nothing would happen.")
    for headings, rows in _tables(simulation):
        if rows:
            print_table(headings, rows)
            click.echo()
    for explanation in simulation["explain"]:
        name = explanation["campaignCode"] or explanation["campaignId"]
        subject = f"{name}, action {explanation['actionId']}" if explanation["actionId"] is not None else str(name)
        reason = explanation.get("reason") or {}
        text = (
            good("applies")
            if explanation["applied"]
            else f"does not apply: {reason.get('label') or reason.get('code')}"
        )
        click.echo(f"{subject}: {text}")


def _tables(simulation: Mapping[str, Any]) -> Iterator[tuple[Sequence[str], Sequence[Sequence[Any]]]]:
    """The tables of a simulation, each with its headings."""
    earn = simulation["earn"]
    yield (
        ["campaign", "effect", "parameters", "status"],
        [
            (effect["campaignCode"] or effect["campaignId"], effect["effectId"], _parameters(effect), effect["status"])
            for effect in earn["effects"]
        ],
    )
    yield ["earned", "of", "amount"], [*_gains(earn)]
    yield (
        ["code", "discount", "usable"],
        [(coupon["code"], _or_dash(coupon["discount"]), _usable(coupon)) for coupon in simulation["coupons"]],
    )
    yield (
        ["coupon book", "discount", "points", "usable"],
        [
            (book["name"], _or_dash(book["discount"]), _or_dash(book["cost"]), _usable(book))
            for book in simulation["redeem"]
        ],
    )
    yield (
        ["next", "name", "missing", "gives"],
        [
            (reward["kind"], reward["name"], _gap_text(reward["missing"]), "; ".join(map(_gift, reward["gives"])))
            for reward in simulation["next"]
        ],
    )


def _gains(earn: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """The gains of a simulation, each as (kind, record, amount)."""
    for account in earn["accounts"]:
        expiry = f", expiring from {account['expiresAt']}" if account["expiresAt"] else ""
        cut = f", {account['discarded']} cut by limits" if account["discarded"] else ""
        yield "points", account["ledgerAccountKey"], f"{account['available']}{expiry}{cut}"
    yield from (("discount", discount["campaignKey"], discount["amount"]) for discount in earn["discounts"])
    yield from (("coupons", coupons["couponBookKey"], coupons["amount"]) for coupons in earn["coupons"])
    yield from (("badges", badges["badgeKey"], badges["amount"]) for badges in earn["badges"])
    for mission in earn["missions"]:
        yield "mission", mission["name"], f"{mission['newCounter']} of {mission['goal']}"
    yield from (("tier", tier["loyaltyProgramKey"], _or_dash(tier["after"])) for tier in earn["tiers"])


def _parameters(effect: Mapping[str, Any]) -> str:
    """The parameters of an effect that are set."""
    parameters = [parameter for parameter in effect["params"] if parameter.get("value") is not None]
    return ", ".join(f"{parameter['id']} {parameter['value']}" for parameter in parameters)


def _gift(effect: Mapping[str, Any]) -> str:
    return f"{effect['effectId']} {_parameters(effect)}"


def _usable(offer: Mapping[str, Any]) -> str:
    """`yes` for a usable coupon, else the reasons why it is not."""
    return "yes" if offer["usable"] else "no: " + " ".join(reason["detail"] for reason in offer["exclusionReasons"])


def _gap_text(gap: Mapping[str, Any]) -> str:
    words = {"orderTotal": "more to spend", "points": "points", "count": "more times"}
    return f"{gap['amount']} {words[gap['kind']]}"


def _or_dash(value: Any) -> Any:
    return "-" if value is None else value
