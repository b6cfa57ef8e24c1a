"""The command that runs the server."""

from __future__ import annotations

import click
from sqlalchemy import Connection

from handlers.commands.context import command_engine, load_settings, with_database
from handlers.commands.tenant import TOKEN_SECONDS, organization_with_token
from handlers.settings import Settings
from persistence import schema, transactions

# Held while the first organization is made, so that two servers that start at once do not make two.
_FIRST_ORGANIZATION_LOCK = 0x6C6F79616C7402


@click.command()
@click.option("--host", help="Address to listen on (LOYALTY_HOST).")
@click.option("--port", type=int, help="TCP port to listen on (LOYALTY_PORT).")
@click.option("--workers", type=int, help="Processes that answer calls (LOYALTY_WORKERS).")
@click.option("--worker/--no-worker", default=True, help="Run a `loyalty worker` too, as by default.")
def serve(host: str | None, port: int | None, workers: int | None, worker: bool) -> None:
    """Run the server until Ctrl-C.

    Migrates the database first, and makes an organization where there is none.
    """
    from handlers import gunicorn_server

    settings = load_settings(host=host, port=port, workers=workers)
    home = None if settings.database_url else settings.home
    with with_database(settings) as settings:
        with command_engine(settings) as engine:
            schema.migrate(engine)
            organization_id, token = transactions.run(engine, lambda db: _first_organization(db, settings))
        greeting = _greeting(settings, organization_id, token)
        gunicorn_server.run(settings, home=home, when_ready=lambda: click.echo(greeting), with_worker=worker)


def _first_organization(db: Connection, settings: Settings) -> tuple[int, str]:
    """The oldest organization, made if there is none, and a token for its administration."""
    return organization_with_token(
        db, settings, name="First organization", by_name=False, lock=_FIRST_ORGANIZATION_LOCK
    )


def _greeting(settings: Settings, organization_id: int, token: str) -> str:
    base = settings.public_url
    return f"""
The loyalty server is ready at {base}

  Documentation   {base}/integration/docs
                  {base}/administration/docs
  Organization    {organization_id}
  Token           {token}
                  (an administrator's, for {TOKEN_SECONDS // 3600} hours; `loyalty token` makes others)

Try it in another terminal:

  curl -H 'Authorization: Bearer {token}' {base}/organizations/{organization_id}

Ctrl-C stops the server; the data stay.
"""
