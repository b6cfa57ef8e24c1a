"""The SQLAlchemy engine: PostgreSQL through psycopg2, with exact decimals in jsonb columns."""

from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec
import psycopg2
import psycopg2.extensions as driver
import sqlalchemy
from sqlalchemy import URL, Engine, event, make_url
from sqlalchemy.exc import ArgumentError

from persistence.connections import PipeliningConnection

# jsonb is read as text and decoded here, so that a number never passes through a binary float.
_encode = msgspec.json.Encoder(decimal_format="number").encode

CONNECT_TIMEOUT_SECONDS = 5
_CONNECTION_CHECK_MS = 1000
# A cut network gives no signal: without these, a thread would wait for hours for a response that cannot arrive. The
# database counts as lost when it has been silent for some 25 seconds, with a statement to be sent or without.
_SILENCE = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
# A setting without a meaning: if a session has it, the session has the settings that were sent with it, too.
_MARK = "loyalty.session"
_SESSION = f"""
SELECT current_setting('{_MARK}', true), pg_backend_pid(), EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')
"""


def to_json(value: Any) -> str:
    """Write a value for a json or jsonb column; a Decimal becomes a JSON number with all its digits."""
    return _encode(value).decode()


from_json = msgspec.json.Decoder(float_hook=Decimal).decode
"""Reads the content of a json or jsonb column; a number with a fraction or an exponent becomes a Decimal."""


def create_engine(
    url: str,
    *,
    threads: int,
    statement_timeout_ms: int = 30_000,
    lock_timeout_ms: int = 10_000,
    application_name: str = "loyalty",
) -> Engine:
    """Create the engine of a process with this number of threads, each of which has one connection, kept open.

    Transactions are READ COMMITTED; `autocommit` gives the variant for single statements. The `options` of the URL
    apply, except for settings that the server needs itself.
    """
    options = {
        "timezone": "UTC",
        # The database would compile reports, which takes longer than to run them.
        "jit": "off",
        "statement_timeout": str(statement_timeout_ms),
        "lock_timeout": str(lock_timeout_ms),
        # A statement whose connection was cut at the deadline of its call ends, and releases its locks.
        "client_connection_check_interval": str(_CONNECTION_CHECK_MS),
    }
    own_options = [f"-c {name}={value}" for name, value in {**options, _MARK: "on"}.items()]
    driver_url = _url_of_driver(url)
    engine = sqlalchemy.create_engine(
        driver_url,
        pool_size=threads,
        max_overflow=0,
        pool_pre_ping=False,
        isolation_level="READ COMMITTED",
        # The values of a statement are members' data and must not be logged.
        hide_parameters=True,
        json_serializer=to_json,
        json_deserializer=from_json,
        connect_args={
            "connection_factory": PipeliningConnection,
            "application_name": application_name,
            "connect_timeout": CONNECT_TIMEOUT_SECONDS,
            **_SILENCE,
            "options": " ".join([*driver_url.normalized_query.get("options", ()), *own_options]),
        },
    )
    event.listen(engine, "connect", _read_plain_values)
    event.listen(engine, "connect", partial(_keep_settings, options))
    return engine


def fault_of_url(url: str) -> str | None:
    """The fault of the URL of a database, such as an unknown parameter; None if the URL is valid.

    Does not connect.
    """
    try:
        driver_url = _url_of_driver(url)
        _, parameters = driver_url.get_dialect()().create_connect_args(driver_url)
        driver.make_dsn(**parameters)
    except (ArgumentError, psycopg2.ProgrammingError, ValueError) as error:
        return str(error).strip().removeprefix("invalid dsn: ")
    return None


def _url_of_driver(url: str) -> URL:
    # A plain `postgresql://` would select another driver.
    return make_url(url.replace("postgres://", "postgresql://", 1)).set(drivername="postgresql+psycopg2")


# All queries read a UUID as text and a digest as bytes, with SQLAlchemy or without.
_UUIDS = driver.new_array_type((2951,), "UUID[]", driver.UNICODE)
_BYTES = driver.new_type((17,), "BYTEA", lambda value, cursor: None if value is None else bytes.fromhex(value[2:]))


def _read_plain_values(connection: Any, _: Any) -> None:
    # SQLAlchemy has registered a type that converts UUIDs (2950) to objects; without it the driver returns texts.
    connection.string_types.pop(2950, None)
    for kind in (_UUIDS, _BYTES):
        driver.register_type(kind, connection)


def _keep_settings(settings: Mapping[str, str], connection: PipeliningConnection, _: Any) -> None:
    """Send the settings with each transaction if the session lacks them; if not, prepare statements where possible.

    The session lacks them behind a pooler such as PgBouncer, which has to be configured to ignore them, as its
    connections serve several clients in turn. A pooler that passes the settings on is recognized by the process id of
    the session, which differs from the one that the connection reports: statements cannot be prepared there. Nor can
    they on Citus, which chooses nodes by the values of a statement.
    """
    with connection.cursor(cursor_factory=driver.cursor) as cursor:
        cursor.execute(_SESSION)
        has_settings, process, is_citus = cursor.fetchone()
        if not has_settings:
            connection.set_in_transactions(settings)
        elif process == connection.info.backend_pid and not is_citus:
            cursor.execute("SET plan_cache_mode = force_generic_plan")
            connection.prepare_statements()


def autocommit(engine: Engine) -> Engine:
    """The same engine and pool without transactions: a single read then saves the round trip of the COMMIT."""
    return engine.execution_options(isolation_level="AUTOCOMMIT")
