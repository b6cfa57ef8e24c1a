"""The command that runs the server."""

import errno
import logging
import socket
from collections.abc import Callable
from functools import partial

import click
from sqlalchemy import Connection, Engine

from handlers.server.commands.context import command_engine, load_settings, with_database
from handlers.server.commands.server_address import publish_address
from handlers.server.commands.tenant import TOKEN_SECONDS, Tenant, find_or_create, new_operator_token
from handlers.server.loading import loading
from handlers.settings import SettingError, Settings
from persistence import schema, transactions

# Held while the first organization is created, so that two servers that start at once do not create two.
_FIRST_ORGANIZATION_LOCK = 0x6C6F79616C7402

_log = logging.getLogger("loyalty.serve")


@click.command()
@click.option("--host", help="Address to listen on (LOYALTY_HOST).")
@click.option("--port", type=int, help="TCP port to listen on (LOYALTY_PORT).")
@click.option("--workers", type=int, help="Processes that respond to calls (LOYALTY_WORKERS).")
@click.option("--worker/--no-worker", default=True, help="Whether to run a `loyalty worker`, too; on by default.")
def serve(host: str | None, port: int | None, workers: int | None, worker: bool) -> None:
    """Run the server until Ctrl-C.

    Migrates the database first, and makes an organization where there is none.
    """
    with loading():
        from handlers.server import gunicorn_server

    settings = load_settings(host=host, port=port, workers=workers)
    _check_addresses(settings)
    home = None if settings.database_url else settings.home
    with with_database(settings) as settings:
        with command_engine(settings) as engine:
            schema.migrate(engine)
            tenant = transactions.run(engine, _first_organization)
            announce = _announcement(engine, settings, tenant)
        with publish_address(home, settings.public_url, announce) as when_ready:
            gunicorn_server.run(settings, home=home, when_ready=when_ready, with_worker=worker)


def _check_addresses(settings: Settings) -> None:
    """Refuse addresses on which the server cannot listen, such as those of another program."""
    _check_address(settings.host, settings.port, "--host and --port (LOYALTY_HOST, LOYALTY_PORT)")
    if settings.management_port is not None:
        if (settings.management_host, settings.management_port) == (settings.host, settings.port):
            raise SettingError("LOYALTY_MANAGEMENT_BIND must differ from the address of LOYALTY_HOST and LOYALTY_PORT")
        _check_address(settings.management_host, settings.management_port, "LOYALTY_MANAGEMENT_BIND")


def _check_address(host: str, port: int, setting: str) -> None:
    """Raise ClickException if the server cannot listen on an address; `setting` is the setting that changes it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                reason = f"port {port} of {host} is in use, perhaps by another `loyalty serve`"
            else:
                reason = f"the server cannot listen on port {port} of {host}: {error.strerror}"
            raise click.ClickException(f"{reason}; choose another address with {setting}") from None


def _first_organization(db: Connection) -> Tenant:
    """The oldest organization, created if there is none."""
    return find_or_create(db, name="First organization", by_name=False, lock=_FIRST_ORGANIZATION_LOCK)


def _announcement(engine: Engine, settings: Settings, tenant: Tenant) -> Callable[[], None]:
    """A function that announces that the server is ready, and how to try it; JSON logs get no secrets."""
    if settings.log_format == "json":
        return partial(_log.info, _log_line(settings, tenant))
    token = transactions.run(engine, lambda db: new_operator_token(db, settings, tenant.organization_id, is_admin=True))
    return partial(click.echo, _greeting(settings, tenant, token))


def _log_line(settings: Settings, tenant: Tenant) -> str:
    command = "token --admin" if tenant.credentials is None else "credentials reset"
    what = "a token" if tenant.credentials is None else "credentials of the organization that was made"
    hint = f"`loyalty {command} --organization {tenant.organization_id}` prints {what}"
    return f"the server is ready at {settings.public_url}; {hint}"


def _greeting(settings: Settings, tenant: Tenant, token: str) -> str:
    """The text for a person at a terminal: where the server listens, and a first call to try."""
    base = settings.public_url
    site = settings.management_url or base.removesuffix("/v2")
    return f"""
{click.style(f"The loyalty server is ready at {base}", fg="green", bold=True)}

  Playground      {site}/playground
  Documentation   {site}/docs/quickstart
                  {site}/v2/integration/docs
                  {site}/v2/administration/docs
  Organization    {tenant.organization_id}
{_credentials(tenant)}
Try it in another terminal, as an administrator for {TOKEN_SECONDS // 3600} hours (`loyalty token` makes other tokens):

  export TOKEN={token}
  curl -H "Authorization: Bearer $TOKEN" {base}/organizations/{tenant.organization_id}

Ctrl-C stops the server; the data stay.
"""


def _credentials(tenant: Tenant) -> str:
    """The lines with the credentials of the API user; empty unless the organization was just created."""
    if tenant.credentials is None:
        return ""
    client_id, client_secret = tenant.credentials
    return f"""  API user        client_id      {client_id}
                  client_secret  {client_secret}
                  (not shown again; `loyalty credentials reset` makes a new secret)
"""
