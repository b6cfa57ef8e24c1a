"""The schema and its migrations, also between versions and processes."""

from __future__ import annotations

import hashlib
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, make_url, text

from handlers.services.verify import verify_reports
from persistence import schema
from persistence.engine import autocommit, create_engine
from persistence.migrations import new
from persistence.tables import metadata

FIRST_RELEASE = "6180ea55debbab9af85c809d0bf021f78c7edfd499153ce09252f85055043ff3"


@pytest.fixture
def empty_database(engine: Engine, database_url: str):
    """The engine of a new database without any table."""
    with autocommit(engine).connect() as db:
        db.execute(text("CREATE DATABASE schema_test"))
    url = make_url(database_url).set(database="schema_test").render_as_string(hide_password=False)
    engine_of_new_database = create_engine(url, threads=4)
    yield engine_of_new_database
    engine_of_new_database.dispose()
    with autocommit(engine).connect() as db:
        db.execute(text("DROP DATABASE schema_test"))


# The definitions of a schema as the database reports them, except the order of columns.
CATALOG = {
    "columns": """
        SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attstorage,
            coalesce(a.attstattarget, -1), pg_get_expr(d.adbin, d.adrelid)
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace""",
    "tables": """
        SELECT relname, reloptions FROM pg_class
        WHERE relkind IN ('r', 'S', 'v') AND relnamespace = current_schema()::regnamespace""",
    # Kind n is NOT NULL, which only PostgreSQL 18 lists here.
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE contype <> 'n' AND connamespace = current_schema()::regnamespace""",
    "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()",
    "triggers": "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "functions": """
        SELECT proname, pg_get_functiondef(p.oid) FROM pg_proc p
        JOIN pg_language l ON l.oid = prolang AND lanname = 'plpgsql'""",
    "extensions": "SELECT extname FROM pg_extension",
}


def catalog_of(engine: Engine) -> dict[str, set[tuple[str, ...]]]:
    """The definitions of a database's schema by their kind, without Alembic's table."""
    with engine.connect() as db:
        rows = {kind: db.execute(text(query)).all() for kind, query in CATALOG.items()}
    return {
        kind: {tuple(map(str, row)) for row in rows_of_kind if "alembic" not in row[0]}
        for kind, rows_of_kind in rows.items()
    }


@pytest.mark.slow
def test_the_migrations_create_exactly_the_schema_in_code(engine, empty_database):
    assert schema.differences(engine) == []
    with empty_database.begin() as db:
        metadata.create_all(db)
        # Migrating also sets these targets of statistics, which the metadata does not contain.
        schema._keep_organizations_out_of_statistics(db)
    migrated_catalog, created_catalog = catalog_of(engine), catalog_of(empty_database)
    for kind, parts in created_catalog.items():
        assert migrated_catalog[kind] == parts, kind
    # The compared catalogs are not empty; the tables of CATALOG include sequences and views.
    assert len(created_catalog["tables"]) > len(metadata.tables) > 60
    assert {name for name, _ in created_catalog["functions"]} >= {"ledger_entries_stay", "report_entries_added"}
    assert created_catalog["extensions"] >= {("pg_trgm",), ("btree_gin",)}


def test_the_migration_of_the_first_release_is_never_changed():
    statements = Path(schema.__file__).parent / "migrations" / "versions" / "1000_create_the_schema.sql"
    assert hashlib.sha256(statements.read_bytes()).hexdigest() == FIRST_RELEASE, "Add a migration instead."


@pytest.mark.slow
def test_a_difference_between_the_database_and_the_code_is_reported(db):
    db.execute(text("ALTER TABLE organizations ADD COLUMN forgotten text"))
    assert [kind for kind, *_ in schema.differences_on(db)] == ["remove_column"]


@pytest.mark.slow
def test_migrating_runs_all_pending_migrations_and_can_be_repeated(empty_database):
    pending = schema.find_pending_migrations(empty_database)
    assert pending
    assert pending == sorted(pending)
    assert schema.migrate(empty_database) == pending
    assert schema.find_pending_migrations(empty_database) == []
    assert schema.migrate(empty_database) == []


def test_the_files_are_named_by_their_revisions_in_order():
    newest_first = ScriptDirectory(str(Path(schema.__file__).parent / "migrations")).walk_revisions()
    assert schema._revisions() == [script.revision for script in newest_first][::-1]


def set_revision(engine: Engine, revision: str, note: str = "") -> None:
    """Let the database be at the revision; `note` is the comment that names the versions that can use it."""
    with engine.begin() as db:
        db.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
        db.execute(text(f"COMMENT ON TABLE alembic_version IS '{note}'"))


@pytest.mark.slow
def test_the_state_lists_the_pending_migrations(empty_database):
    state_of_empty_database = schema.find_state(empty_database)
    assert not state_of_empty_database.is_usable
    assert state_of_empty_database.pending == tuple(schema.migrate(empty_database))
    assert schema.find_state(empty_database) == schema.SchemaState(pending=(), newer=None, is_usable=True)


@pytest.mark.slow
def test_a_newer_database_is_used_if_it_was_only_expanded_since_the_last_known_revision(empty_database):
    last_known_revision = schema.migrate(empty_database)[-1]
    set_revision(empty_database, "9999", note=f"9999 is usable since {last_known_revision}")
    assert schema.find_state(empty_database) == schema.SchemaState(pending=(), newer="9999", is_usable=True)
    assert schema.find_pending_migrations(empty_database) == []
    assert schema.migrate(empty_database) == []
    # This version of the product does not know revision 9000.
    set_revision(empty_database, "9999", note="9999 is usable since 9000")
    assert schema.find_state(empty_database) == schema.SchemaState(pending=(), newer="9999", is_usable=False)
    with pytest.raises(schema.SchemaError, match="9999"):
        schema.find_pending_migrations(empty_database)


@pytest.mark.slow
def test_migrations_that_only_expand_leave_the_database_usable_for_older_versions(
    empty_database, temporary_directory, monkeypatch
):
    directory = temporary_directory / "expanding"
    shutil.copytree(Path(schema.__file__).parent / "migrations", directory)
    last_known_revision = schema.find_pending_migrations(empty_database)[-1]
    for revision, previous_revision in (("9001", last_known_revision), ("9002", "9001")):
        (directory / "versions" / f"{revision}_expand.py").write_text(
            f"revision = '{revision}'\ndown_revision = '{previous_revision}'\nEXPANDS = True\n\n\n"
            "def upgrade():\n    pass\n"
        )
    # A newer version of the product, which knows both revisions, migrates.
    with monkeypatch.context() as newer_version:
        newer_version.setattr(schema, "_DIRECTORY", directory)
        assert schema.migrate(empty_database)[-1] == "9002"
    assert schema.find_state(empty_database) == schema.SchemaState(pending=(), newer="9002", is_usable=True)


# 100 points of 1 March that were released on 15 March, reported as revision 1031 did; no trigger reports them again.
_RELEASED_BEFORE = (
    "SET LOCAL session_replication_role = replica",
    "INSERT INTO ledger_transactions (organization_id, ledger_transaction_id, ledger_account_id, transaction_type,"
    " status, amount, system_unique_key, external_event_date, tags, to_wallet_id, available_at, captured_at,"
    " created_at, updated_at)"
    " VALUES (1, 1, 1, 1, 1, 100, 'minted', '2026-03-01T09:00Z', ARRAY['spring'], 1, '2026-03-15T09:00Z',"
    " '2026-03-15T09:00Z', '2026-03-01T09:00Z', '2026-03-15T09:00Z')",
    "INSERT INTO ledger_entries (organization_id, ledger_transaction_id, entry_index, ledger_account_id, wallet_id,"
    " amount)"
    " VALUES (1, 1, 0, 1, 1, 100), (1, 1, 1, 1, NULL, -100)",
    "INSERT INTO report_changes (organization_id, kind, at, subject, wallet_id, tags, a, b)"
    " VALUES (1, 'mints', '2026-03-01T09:00Z', 1, 1, ARRAY['spring'], 100, 1)",
)


@pytest.mark.slow
def test_a_migration_moves_released_points_to_the_day_of_their_release_in_reports(empty_database):
    with empty_database.begin() as db:
        command.upgrade(schema.alembic_config(db), "1031")
        for statement in _RELEASED_BEFORE:
            db.exec_driver_sql(statement)
    schema.migrate(empty_database)
    # `a` is the sum of the points, `b` the number of mints.
    statement = "SELECT at, sum(a), sum(b) FROM report_changes GROUP BY 1 HAVING sum(a) <> 0 OR sum(b) <> 0"
    with empty_database.connect() as db:
        assert db.exec_driver_sql(statement).all() == [(datetime(2026, 3, 15, 9, tzinfo=UTC), 100, 1)]
        assert verify_reports(db, 1) == []


def test_the_database_collects_no_statistics_of_organization_id_columns(db):
    result = db.execute(
        text(
            "SELECT c.relname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relkind = 'r'"
            " AND a.attname = 'organization_id' AND coalesce(a.attstattarget, -1) <> 0"
        )
    )
    assert result.scalars().all() == ["organizations"]


@pytest.mark.slow
def test_several_processes_may_migrate_at_once(empty_database):
    with ThreadPoolExecutor(4) as pool:
        migrations = list(pool.map(lambda _: schema.migrate(empty_database), range(4)))
    # One process runs all migrations; the others find none that is pending.
    assert sorted(map(bool, migrations)) == [False, False, False, True]
    assert schema.differences(empty_database) == []


@pytest.mark.slow
def test_a_database_of_a_newer_version_is_not_migrated(empty_database):
    schema.migrate(empty_database)
    set_revision(empty_database, "9999")
    with pytest.raises(schema.SchemaError, match="9999"):
        schema.migrate(empty_database)


@pytest.mark.slow
def test_a_database_from_before_the_first_release_is_refused(empty_database):
    schema.migrate(empty_database)
    for revision in ("0001", "0043"):
        set_revision(empty_database, revision)
        for function in (schema.migrate, schema.find_pending_migrations, schema.find_state):
            message = f"at revision {revision}, of a version before 1.0.0, .* empty database"
            with pytest.raises(schema.SchemaError, match=message):
                function(empty_database)


@pytest.mark.slow
def test_a_new_revision_contains_the_differences_between_the_code_and_the_database(temporary_directory, monkeypatch):
    directory = temporary_directory / "migrations"
    shutil.copytree(Path(schema.__file__).parent / "migrations", directory)
    monkeypatch.setattr(schema, "_DIRECTORY", directory)
    # The schema of the revision files is complete, so that the new one is empty.
    new.write("Change nothing", temporary_directory / "home")
    new_revision = int(schema._revisions()[-1])
    content = (directory / "versions" / f"{new_revision}_change_nothing.py").read_text()
    assert content.endswith("    pass\n    # ### end Alembic commands ###\n")
    # Without revision files the new one contains all tables.
    for script in (directory / "versions").glob("[0-9]*"):
        script.unlink()
    new.write("Create the schema", temporary_directory / "revision-home")
    content = (directory / "versions" / "1000_create_the_schema.py").read_text()
    assert 'op.create_table("organizations"' in content.replace("'", '"')
    assert "alembic_version" not in content
