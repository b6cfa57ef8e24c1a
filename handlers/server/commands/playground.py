"""The command that opens the playground of a running server."""

import webbrowser

import click

from handlers.server.commands.context import load_settings
from handlers.server.commands.server_address import fault_of_base_url, server_url
from handlers.server.commands.simulate import base_url_option, organization_option, server_token

_TOKEN_SECONDS = 24 * 3600
_READ_ROLES = frozenset(
    f"{records}:read" for records in ("badges", "campaigns", "coupons", "ledgers", "members", "tiers")
)
_TRACK_ROLE = "orders:write"


@click.command()
@organization_option
@base_url_option
@click.option("--browser/--no-browser", default=True, help="Open the page (the default), or only print its address.")
def playground(organization: int | None, base_url: str | None, browser: bool) -> None:
    """Open the playground of a running server, with a token.

    The token lasts a day, reads, and tracks events. It is behind the # of the address, which browsers do not send.
    If no server responds at the address, it is only printed, with a warning.
    """
    settings = load_settings(base_url=base_url)
    _, token = server_token(settings, organization, _READ_ROLES | {_TRACK_ROLE}, _TOKEN_SECONDS)
    url = f"{settings.management_url}/v2" if base_url is None and settings.management_url else server_url(settings)
    fault = _fault_of_server(url)
    if fault is not None:
        click.echo(f"Warning: {fault}", err=True)
    address = f"{url.removesuffix('/v2')}/playground#token={token}"
    if not (browser and fault is None and webbrowser.open(address)):
        click.echo(address)


def _fault_of_server(url: str) -> str | None:
    """The reason why the page would not work on this machine; None if it would."""
    import httpx

    try:
        return fault_of_base_url(url)
    except httpx.HTTPError as error:
        return f"no server responds at {url}: {error}; `loyalty serve` starts one, --base-url names another"
