"""The command that opens the playground of a running server."""

import webbrowser

import click

from handlers.server.commands.context import load_settings
from handlers.server.commands.server_address import server_url
from handlers.server.commands.simulate import base_url_option, organization_option, server_token

_TOKEN_SECONDS = 24 * 3600
_READS = frozenset(f"{records}:read" for records in ("badges", "campaigns", "coupons", "ledgers", "members", "tiers"))
_TRACKING = "orders:write"


@click.command()
@organization_option
@base_url_option
@click.option("--browser/--no-browser", default=True, help="Open the page, as by default, or only print its address.")
def playground(organization: int | None, base_url: str | None, browser: bool) -> None:
    """Open the playground of a running server, with a token.

    The token lasts a day, reads, and tracks events. It is behind the # of the address, which browsers do not send.
    """
    settings = load_settings(base_url=base_url)
    _, token = server_token(settings, organization, _READS | {_TRACKING}, _TOKEN_SECONDS)
    address = f"{server_url(settings).removesuffix('/v2')}/playground#token={token}"
    if not (browser and webbrowser.open(address)):
        click.echo(address)
