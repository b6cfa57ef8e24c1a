"""The schema of the database: migrations, and comparisons with the tables in code.

Alembic is imported only to change the schema or to compare it, so that commands start quickly.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, text

if TYPE_CHECKING:
    from alembic.config import Config

_DIRECTORY = Path(__file__).parent / "migrations"
# A number that nothing else in the database locks.
_MIGRATION_LOCK = 0x6C6F79616C7401


# A part of the comment on Alembic's table, from which older versions of the product learn whether they can use it.
_USABLE = " is usable since "


class SchemaError(RuntimeError):
    """The database has a schema that this version of the product cannot work with."""


def migrate(engine: Engine) -> list[str]:
    """Apply all pending migrations in one transaction and return their names; concurrent calls are serialized."""
    from alembic import command

    with engine.begin() as connection:
        lock_schema(connection)
        revisions = _pending(connection)
        if revisions:
            command.upgrade(alembic_config(connection), "head")
            note = f"{revisions[-1]}{_USABLE}{usable_since()}"
            connection.execute(text(f"COMMENT ON TABLE alembic_version IS '{note}'"))
            _keep_organizations_out_of_statistics(connection)
        return revisions


def lock_schema(connection: Connection) -> None:
    """Lock the schema against other transactions that change it, and remove the time limits of this transaction."""
    # A change of the schema may take longer than a call may.
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    connection.execute(text("SET LOCAL lock_timeout = 0"))
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})


# The tables that still have statistics of the column `organization_id`. PostgreSQL represents "no target" by -1 or
# null, depending on its version.
_WITH_ORGANIZATION_STATISTICS = """
SELECT c.oid::regclass::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE a.attname = 'organization_id' AND coalesce(a.attstattarget, -1) <> 0
    AND c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace AND c.relname <> 'organizations'
"""


def _keep_organizations_out_of_statistics(connection: Connection) -> None:
    """Make the planner assume the average size of organizations, not the size of the one that a statement names.

    For an organization that is newer than the last ANALYZE, the statistics have no rows: the planner would read all its
    rows, by an index only on the organization, once for every row that it joins.
    """
    for table in connection.execute(text(_WITH_ORGANIZATION_STATISTICS)).scalars().all():
        connection.execute(text(f"ALTER TABLE {table} ALTER COLUMN organization_id SET STATISTICS 0"))


def find_pending_migrations(engine: Engine) -> list[str]:
    """The names of the migrations that the database lacks, oldest first."""
    with engine.connect() as connection:
        return _pending(connection)


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema of a database: the migrations that it lacks, or the newer revision that it has, None if not newer.

    The schema is usable if no migration is pending, and if a newer revision works with this version of the product.
    """

    pending: tuple[str, ...]
    newer: str | None
    is_usable: bool


def find_state(engine: Engine) -> SchemaState:
    """Compare the schema of the database with the one that this version needs."""
    with engine.connect() as connection:
        newer = _newer_revision(connection)
        if newer is not None:
            return SchemaState(pending=(), newer=newer, is_usable=_accepts_this_version(connection, newer))
        pending = tuple(_pending(connection))
        return SchemaState(pending, newer=None, is_usable=not pending)


def differences(engine: Engine) -> list[object]:
    """The differences of the database from the tables in code, as Alembic's operations; empty if there are none."""
    with engine.connect() as connection:
        return differences_on(connection)


def differences_on(connection: Connection) -> list[object]:
    """The same as `differences`, in the transaction of a connection."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from persistence.tables import metadata

    options = {"compare_type": True, "compare_server_default": True}
    return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))


def _pending(connection: Connection) -> list[str]:
    """The names of the migrations that the database lacks; raises SchemaError if its schema is too new."""
    newer = _newer_revision(connection)
    if newer is not None:
        if _accepts_this_version(connection, newer):
            return []
        raise SchemaError(f"the database is at revision {newer}, of a newer version of the product")
    current_revision = _revision(connection) or ""
    return [revision for revision in _revisions() if revision > current_revision]


def _revisions() -> list[str]:
    """The revisions that this version of the product knows, oldest first, from the names of the migrations' files."""
    return sorted(path.name.partition("_")[0] for path in (_DIRECTORY / "versions").glob("[0-9]*.py"))


def _revision(connection: Connection) -> str | None:
    """The revision of the database; None before the first migration.

    Raises SchemaError for a revision from before version 1.0.0, which cannot be migrated.
    """
    if connection.execute(text("SELECT to_regclass('alembic_version')")).scalar() is None:
        return None
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if revision is not None and revision < _revisions()[0]:
        raise SchemaError(
            f"the database is at revision {revision}, of a version before 1.0.0, and cannot be migrated: export what is"
            " in it with that version, and import it into an empty database of this version"
        )
    return revision


def _newer_revision(connection: Connection) -> str | None:
    """The revision of the database if this version does not know it; None if it does, or if there is none."""
    revision = _revision(connection)
    return None if revision is None or revision in _revisions() else revision


def usable_since() -> str:
    """The oldest revision whose version of the product works with the schema of this version.

    A migration that only expands the schema lets older versions work with it.
    """
    from alembic.script import ScriptDirectory

    since = ""
    for script in ScriptDirectory(str(_DIRECTORY)).walk_revisions():
        since = script.revision
        if not getattr(script.module, "EXPANDS", False):
            break
    return since


def _accepts_this_version(connection: Connection, stored_revision: str) -> bool:
    """True if this version works with the schema, by the note of the version that migrated the database."""
    # The note is `<newest revision> is usable since <revision>`: every version that knows the second revision works.
    noted = connection.execute(text("SELECT obj_description(to_regclass('alembic_version'))")).scalar() or ""
    revision, _, since = noted.partition(_USABLE)
    return revision == stored_revision and since in _revisions()


def alembic_config(connection: Connection) -> Config:
    """The configuration of Alembic for one open connection, without a configuration file."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_DIRECTORY).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
