"""The command that runs the server."""

from __future__ import annotations

from datetime import UTC, datetime

import click
from sqlalchemy import Connection, select, text

from handlers.commands.context import command_engine, load_settings, with_database
from handlers.settings import Settings
from persistence import schema, transactions
from persistence.tables.organizations import organizations

_TOKEN_SECONDS = 24 * 3600
# Held while the first organization is made, so that two servers that start at once do not make two.
_FIRST_ORGANIZATION_LOCK = 0x6C6F79616C7402


@click.command()
@click.option("--host", help="Address to listen on (LOYALTY_HOST).")
@click.option("--port", type=int, help="TCP port to listen on (LOYALTY_PORT).")
@click.option("--workers", type=int, help="Worker processes (LOYALTY_WORKERS).")
def serve(host: str | None, port: int | None, workers: int | None) -> None:
    """Run the server until Ctrl-C.

    Migrates the database first, and makes an organization where there is none.
    """
    from handlers import gunicorn_server

    settings = load_settings(host=host, port=port, workers=workers)
    with with_database(settings) as settings:
        with command_engine(settings) as engine:
            schema.migrate(engine)
            organization_id, token = transactions.run(engine, lambda db: _first_organization(db, settings))
        greeting = _greeting(settings, organization_id, token)
        gunicorn_server.run(settings, when_ready=lambda: click.echo(greeting))


def _first_organization(db: Connection, settings: Settings) -> tuple[int, str]:
    """The oldest organization, made if there is none, and a token for its administration."""
    from handlers.flows.create_organization import create_organization
    from handlers.tokens import issue_operator_token

    now = datetime.now(UTC)
    db.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _FIRST_ORGANIZATION_LOCK})
    oldest = select(organizations.c.organization_id).order_by(organizations.c.organization_id).limit(1)
    organization_id = db.execute(oldest).scalar()
    if organization_id is None:
        organization_id = create_organization(db, name="First organization", now=now).organization_id
    token = issue_operator_token(
        db,
        settings,
        organization_id=organization_id,
        roles=frozenset(),
        is_admin=True,
        lifetime=_TOKEN_SECONDS,
        now=now,
    )
    return organization_id, token


def _greeting(settings: Settings, organization_id: int, token: str) -> str:
    base = settings.public_url
    return f"""
The loyalty server is ready at {base}

  Documentation   {base}/integration/docs
                  {base}/administration/docs
  Organization    {organization_id}
  Token           {token}
                  (an administrator's, for {_TOKEN_SECONDS // 3600} hours; `loyalty token` makes others)

Try it in another terminal:

  curl -H 'Authorization: Bearer {token}' {base}/organizations/{organization_id}

Ctrl-C stops the server; the data stay.
"""
