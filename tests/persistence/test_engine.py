"""Connections to the database: settings, number, JSON, and the spelling of URLs."""

from __future__ import annotations

from decimal import Decimal

import pytest
from sqlalchemy import text
from sqlalchemy.exc import TimeoutError as PoolTimeout

from persistence.engine import autocommit, create_engine, from_json, to_json


def test_numbers_in_jsonb_keep_every_digit(db):
    text_of_numbers = '{"large": 18446744073709.123456, "trailing": 1.10, "whole": 7}'
    value = db.execute(text("SELECT CAST(:value AS jsonb)"), {"value": text_of_numbers}).scalar_one()
    assert value == {"large": Decimal("18446744073709.123456"), "trailing": Decimal("1.10"), "whole": 7}
    assert str(value["trailing"]) == "1.10"
    assert isinstance(value["whole"], int)


def test_json_is_written_with_exact_decimals():
    assert to_json({"amount": Decimal("0.10")}) == '{"amount":0.10}'
    assert from_json(to_json({"amount": Decimal("18446744073709.123456")})) == {
        "amount": Decimal("18446744073709.123456")
    }


def test_connections_have_the_time_zone_the_time_limits_and_the_isolation_level(database_url):
    engine = create_engine(database_url, threads=1, statement_timeout_ms=1234, lock_timeout_ms=567)
    names = ("TimeZone", "statement_timeout", "lock_timeout", "application_name", "transaction_isolation")
    with engine.connect() as db:
        session_settings = [db.execute(text(f"SHOW {name}")).scalar_one() for name in names]
    engine.dispose()
    assert session_settings == ["UTC", "1234ms", "567ms", "loyalty", "read committed"]


def test_the_options_of_the_url_apply_except_for_settings_that_the_server_needs(database_url):
    separator = "&" if "?" in database_url else "?"
    url = f"{database_url}{separator}options=-c%20work_mem%3D7MB%20-c%20timezone%3DAsia/Tokyo"
    engine = create_engine(url, threads=1)
    with engine.connect() as db:
        session_settings = [db.execute(text(f"SHOW {name}")).scalar_one() for name in ("work_mem", "TimeZone")]
    engine.dispose()
    assert session_settings == ["7MB", "UTC"]


def test_a_silent_connection_is_closed_within_30_seconds(engine):
    with engine.connect() as db:
        parameters = db.connection.dbapi_connection.get_dsn_parameters()
    probe_seconds = int(parameters["keepalives_interval"]) * int(parameters["keepalives_count"])
    assert 0 < int(parameters["keepalives_idle"]) + probe_seconds <= 30
    assert 0 < int(parameters["tcp_user_timeout"]) <= 30_000


def test_an_engine_has_as_many_connections_as_threads(database_url):
    engine = create_engine(database_url, threads=1)
    engine.pool._timeout = 0.1
    # The second connection waits for the first one, in vain.
    with engine.connect(), pytest.raises(PoolTimeout), engine.connect():
        pass
    engine.dispose()


def test_autocommit_stores_each_statement_without_a_commit(engine):
    with autocommit(engine).connect() as db:
        db.execute(text("CREATE TABLE kept_by_autocommit (x int)"))
    with engine.begin() as db:
        assert db.execute(text("SELECT to_regclass('kept_by_autocommit')")).scalar_one() is not None
        db.execute(text("DROP TABLE kept_by_autocommit"))


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg2"])
def test_every_spelling_of_a_postgresql_url_uses_the_same_driver(scheme):
    engine = create_engine(f"{scheme}://somebody:secret@127.0.0.1:5432/loyalty", threads=1)
    assert engine.url.drivername == "postgresql+psycopg2"
    assert engine.url.password == "secret"
