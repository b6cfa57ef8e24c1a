"""Alembic's entry point: migrates the connection that `persistence.schema` hands over in the configuration."""

from alembic import context

from persistence.tables import metadata


def run_migrations() -> None:
    """Run what Alembic was asked for inside the one transaction of the given connection."""
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=metadata,
        compare_type=True,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run_migrations()
