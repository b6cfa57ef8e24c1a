"""Distribution of the database over a cluster of Citus: all rows of an organization are on one of its nodes.

Every table whose key begins with the organization is divided into shards by organization. Users and the keys that sign
tokens, which belong to no organization, are on every node; tables that only workers need stay on the coordinator.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, ForeignKeyConstraint, Table, text
from sqlalchemy.schema import AddConstraint, DropConstraint

from persistence import schema
from persistence.tables import metadata
from persistence.tables.organizations import organizations, signing_keys, users

_ON_EVERY_NODE = (users, signing_keys)

# Settings of the database, for all sessions.
_SETTINGS = {
    # Our triggers use the shards next to their own, see `persistence.tables.shards`.
    "citus.enable_unsafe_triggers": "on",
    # A statement on all shards may be followed by one on a table that is on every node.
    "citus.multi_shard_modify_mode": "sequential",
}

_TRIGGERS = text("""
SELECT CAST(tgrelid AS regclass)::text, quote_ident(tgname), pg_get_triggerdef(oid) FROM pg_trigger
WHERE NOT tgisinternal AND tgrelid = ANY(CAST(CAST(:tables AS text[]) AS regclass[])) ORDER BY oid
""")


class DistributionError(RuntimeError):
    """The database cannot be distributed."""


def distribute(engine: Engine, shards: int) -> list[str]:
    """Distribute the tables that are not distributed yet, with their rows, and return their names.

    Distributes all of them or, if an error is raised, none; concurrent calls are serialized. Raises DistributionError
    if the database lacks the extension `citus`.
    """
    with engine.begin() as db:
        schema.lock_schema(db)
        if not _has_citus(db):
            raise DistributionError("The database has no extension citus: its owner must run CREATE EXTENSION citus.")
        database = db.execute(text("SELECT quote_ident(current_database())")).scalar_one()
        for name, value in _SETTINGS.items():
            db.execute(text(f"ALTER DATABASE {database} SET {name} = '{value}'"))
            db.execute(text(f"SET LOCAL {name} = '{value}'"))
        # If this were on, the tables that refer to users would have to be distributed together with users.
        db.execute(text("SET LOCAL citus.enable_local_reference_table_foreign_keys = off"))
        distributed_names = set(db.execute(text("SELECT CAST(table_name AS text) FROM citus_tables")).scalars())
        remaining_tables = [table for table in metadata.sorted_tables if table.name not in distributed_names]
        of_organizations = [table for table in remaining_tables if is_distributed(table)]
        tables_on_every_node = [table for table in remaining_tables if table in _ON_EVERY_NODE]
        tables = [*of_organizations, *tables_on_every_node]
        # A distributed table can refer only to a table that is already on every node: these keys are added at the end.
        foreign_keys = [key for table in of_organizations for key in _references_to_every_node(table)]
        for key in foreign_keys:
            db.execute(DropConstraint(key))
        with _without_triggers(db, tables):
            for table in of_organizations:
                _distribute(db, table, shards)
            for table in tables_on_every_node:
                db.execute(text("SELECT create_reference_table(:name)"), {"name": table.name})
            for table in tables:
                # The coordinator still has the rows that were moved, but no query sees them.
                db.execute(
                    text("SELECT truncate_local_data_after_distributing_table(CAST(:name AS regclass))"),
                    {"name": table.name},
                )
        for key in foreign_keys:
            db.execute(AddConstraint(key))
        db.execute(text("SELECT create_distributed_function('shard_beside(regclass, text)')"))
        return [table.name for table in tables]


@contextmanager
def _without_triggers(db: Connection, tables: Collection[Table]) -> Iterator[None]:
    """Run the context without the triggers of the tables, which would count rows that move to a node as added."""
    triggers = db.execute(_TRIGGERS, {"tables": [table.name for table in tables]}).all()
    for table, name, _ in triggers:
        db.exec_driver_sql(f"DROP TRIGGER {name} ON {table}")
    yield
    for _, _, definition in triggers:
        db.exec_driver_sql(definition)


def is_distributed(table: Table) -> bool:
    """True if a table is divided into shards by organization."""
    return next(iter(table.primary_key.columns)).name == "organization_id"


def _has_citus(db: Connection) -> bool:
    return db.execute(text("SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')")).scalar_one() is True


def _references_to_every_node(table: Table) -> list[ForeignKeyConstraint]:
    return [key for key in table.foreign_key_constraints if key.referred_table in _ON_EVERY_NODE]


def _distribute(db: Connection, table: Table, shards: int) -> None:
    """Divide a table into shards: `organizations` into this number of `shards`.

    The shards of any other table are on the nodes of the shards of `organizations`.
    """
    parameters = {"name": table.name, "shards": shards, "organizations": organizations.name}
    if table is organizations:
        statement = "SELECT create_distributed_table(:name, 'organization_id', shard_count => :shards)"
    else:
        statement = "SELECT create_distributed_table(:name, 'organization_id', colocate_with => :organizations)"
    db.execute(text(statement), parameters)
