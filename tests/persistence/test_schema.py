from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
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


def test_the_files_are_named_by_their_revisions_in_order():
    walked = ScriptDirectory(str(Path(schema.__file__).parent / "migrations")).walk_revisions()
    assert schema._revisions() == [script.revision for script in walked][::-1]


def at_newer_revision(engine: Engine, note: str) -> None:
    with engine.begin() as db:
        db.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        db.execute(text(f"COMMENT ON TABLE alembic_version IS '{note}'"))


def test_the_state_tells_what_is_pending(empty_database):
    before = schema.state(empty_database)
    assert not before.is_usable
    assert before.pending == tuple(schema.migrate(empty_database))
    assert schema.state(empty_database) == schema.SchemaState((), None, True)


def test_a_newer_database_is_used_if_it_was_only_expanded(empty_database):
    last = schema.migrate(empty_database)[-1]
    at_newer_revision(empty_database, f"9999 is usable since {last}")
    assert schema.state(empty_database) == schema.SchemaState((), "9999", True)
    assert schema.pending(empty_database) == []
    assert schema.migrate(empty_database) == []
    at_newer_revision(empty_database, "9999 is usable since 9000")
    assert schema.state(empty_database) == schema.SchemaState((), "9999", False)
    with pytest.raises(schema.SchemaError, match="9999"):
        schema.pending(empty_database)


def test_migrations_that_only_expand_are_noted_for_the_versions_before(
    empty_database, temporary_directory, monkeypatch
):
    directory = temporary_directory / "expanding"
    shutil.copytree(Path(schema.__file__).parent / "migrations", directory)
    last = schema.pending(empty_database)[-1]
    for number, lines in (("9001", "EXPANDS = True"), ("9002", "EXPANDS = True")):
        before = last if number == "9001" else "9001"
        (directory / "versions" / f"{number}_expand.py").write_text(
            f"revision = '{number}'\ndown_revision = '{before}'\n{lines}\n\n\ndef upgrade():\n    pass\n"
        )
    with monkeypatch.context() as newer:
        newer.setattr(schema, "_DIRECTORY", directory)
        assert schema.migrate(empty_database)[-1] == "9002"
    assert schema.state(empty_database) == schema.SchemaState((), "9002", True)


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
