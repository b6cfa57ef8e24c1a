from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Engine, make_url, text

from persistence import schema
from persistence.engine import autocommit, create_engine
from persistence.migrations import new


@pytest.fixture
def empty_database(engine: Engine, database_url: str):
    with autocommit(engine).connect() as db:
        db.execute(text("CREATE DATABASE schema_test"))
    url = make_url(database_url).set(database="schema_test").render_as_string(hide_password=False)
    other = create_engine(url, threads=4)
    yield other
    other.dispose()
    with autocommit(engine).connect() as db:
        db.execute(text("DROP DATABASE schema_test"))


def test_the_migrations_make_exactly_the_tables_in_code(engine):
    assert schema.differences(engine) == []


def test_a_difference_is_noticed(db):
    db.execute(text("ALTER TABLE organizations ADD COLUMN forgotten text"))
    assert [kind for kind, *_ in schema.differences_on(db)] == ["remove_column"]


def test_migrating_is_complete_and_repeatable(empty_database):
    waiting = schema.pending(empty_database)
    assert waiting
    assert waiting == sorted(waiting)
    assert schema.migrate(empty_database) == waiting
    assert schema.pending(empty_database) == []
    assert schema.migrate(empty_database) == []


def test_no_statistics_are_kept_of_the_tenant(db):
    counted = db.execute(
        text(
            "SELECT c.relname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relkind = 'r'"
            " AND a.attname = 'organization_id' AND coalesce(a.attstattarget, -1) <> 0"
        )
    )
    assert counted.scalars().all() == ["organizations"]


def test_several_processes_may_migrate_at_once(empty_database):
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: schema.migrate(empty_database), range(4)))
    assert sorted(map(bool, done)) == [False, False, False, True]
    assert schema.differences(empty_database) == []


def test_a_database_of_a_newer_version_is_left_alone(empty_database):
    schema.migrate(empty_database)
    with empty_database.begin() as db:
        db.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(schema.SchemaError, match="9999"):
        schema.migrate(empty_database)


def test_a_new_revision_holds_what_the_tables_have_more(temporary_directory, monkeypatch):
    directory = temporary_directory / "migrations"
    shutil.copytree(Path(schema.__file__).parent / "migrations", directory)
    for script in (directory / "versions").glob("0*.py"):
        script.unlink()
    monkeypatch.setattr(schema, "_DIRECTORY", directory)
    new.write("Create the schema", temporary_directory / "revision-home")
    written = (directory / "versions" / "0001_create_the_schema.py").read_text()
    assert 'op.create_table("organizations"' in written.replace("'", '"')
    assert "alembic_version" not in written
