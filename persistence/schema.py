"""The schema of the database: migrations, and comparisons with the tables in code."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.script.revision import RevisionError
from sqlalchemy import Connection, Engine, text

from persistence.tables import metadata

_DIRECTORY = Path(__file__).parent / "migrations"
# Any constant that nothing else in the database locks.
_MIGRATION_LOCK = 0x6C6F79616C7401


class SchemaError(RuntimeError):
    """The database has a schema that this version of the product does not know."""


def migrate(engine: Engine) -> list[str]:
    """Apply the pending migrations, all or none, and return their names; concurrent calls take turns."""
    with engine.begin() as connection:
        # A migration may well take longer than a call is allowed to.
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
        to_do = _pending(connection)
        if to_do:
            command.upgrade(config(connection), "head")
            _keep_tenants_out_of_statistics(connection)
        return to_do


# Tables whose statistics would still be taken of the tenant. PostgreSQL has said "no target" as -1 and as null.
_COUNTED_BY_TENANT = """
SELECT c.oid::regclass::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE a.attname = 'organization_id' AND coalesce(a.attstattarget, -1) <> 0
    AND c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace AND c.relname <> 'organizations'
"""


def _keep_tenants_out_of_statistics(connection: Connection) -> None:
    """Make the planner assume an average tenant instead of looking one up.

    An organization that is newer than the last ANALYZE would be taken for one without rows: the planner then reads all
    that it has, by an index on the tenant alone, once for every row that it joins.
    """
    for table in connection.execute(text(_COUNTED_BY_TENANT)).scalars().all():
        connection.execute(text(f"ALTER TABLE {table} ALTER COLUMN organization_id SET STATISTICS 0"))


def pending(engine: Engine) -> list[str]:
    """The names of the migrations that the database has yet to see, oldest first."""
    with engine.connect() as connection:
        return _pending(connection)


def differences(engine: Engine) -> list[object]:
    """The differences of the database from the tables in code, as Alembic's operations; empty if there are none."""
    with engine.connect() as connection:
        return differences_on(connection)


def differences_on(connection: Connection) -> list[object]:
    """`differences` as the transaction of one connection sees them."""
    options = {"compare_type": True, "compare_server_default": True}
    return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))


def _pending(connection: Connection) -> list[str]:
    scripts = ScriptDirectory(str(_DIRECTORY))
    done = MigrationContext.configure(connection).get_current_heads()
    try:
        return [iterate_revision.revision for iterate_revision in scripts.iterate_revisions("heads", done or "base")][
            ::-1
        ]
    except RevisionError:
        raise SchemaError(f"the database is at revision {', '.join(done)}, of a newer version of the product") from None


def config(connection: Connection) -> Config:
    """Alembic's configuration for work on one open connection, without a file of its own."""
    config = Config()
    config.set_main_option("script_location", str(_DIRECTORY).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
