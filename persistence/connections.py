"""The connections of the pool: they begin, write and commit in as few round trips to the database as possible.

A statement whose result is not read is deferred: it is sent in one message with the next statement whose result is
read, in front of that statement, or with the COMMIT. BEGIN is sent with the first statement. PostgreSQL executes the
statements of a message one after the other, each with its own snapshot; the first one that fails ends the transaction,
and its error is raised by the call that sent the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import psycopg2
import psycopg2.extensions as driver
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from persistence.prepared_statements import Prepared, PreparedStatements


class TransactionDeadlineExceeded(Exception):
    """The time of the database transaction is over; nothing was committed."""


_LEVELS = {
    driver.ISOLATION_LEVEL_READ_COMMITTED: "READ COMMITTED",
    driver.ISOLATION_LEVEL_REPEATABLE_READ: "REPEATABLE READ",
    driver.ISOLATION_LEVEL_SERIALIZABLE: "SERIALIZABLE",
}

# Sends one message to the database, and waits for the result.
_transmit = driver.cursor.execute

# Returns the context in which a message with this statement is sent and its result is received.
Observer = Callable[[str | bytes], AbstractContextManager[Any]]

_observer: Observer | None = None


def observe_messages(observer: Observer | None) -> None:
    """Send every message to the database in the context that `observer` returns for it; None ends this.

    The observer gets the statement without its values, and without the statements that are sent in front of it.
    """
    global _observer
    _observer = observer


class PipeliningConnection(driver.connection):  # type: ignore[misc]
    """A connection of psycopg2 that pipelines: it sends statements whose result is not read with the next statement.

    It begins and ends its transactions itself: the driver, which would send BEGIN and COMMIT in separate messages, is
    in its mode without transactions.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.autocommit = True
        self.cursor_factory = PipeliningCursor
        self._begin = "BEGIN; "
        # False if each statement commits at once.
        self.has_transactions = True
        self._settings = ""
        self._deferred: list[str] = []
        self._formatter = super().cursor(cursor_factory=driver.cursor)
        # None if a pooler shares the session among connections, or the database is a Citus cluster.
        self.prepared: PreparedStatements | None = None
        # True if the time of the database transaction is over: nothing more is sent.
        self.is_overdue = False

    def set_isolation_level(self, level: int | None) -> None:
        """Choose the level of transactions that begin from now on; with AUTOCOMMIT there are no transactions."""
        self.has_transactions = level != driver.ISOLATION_LEVEL_AUTOCOMMIT
        self._begin = f"BEGIN ISOLATION LEVEL {_LEVELS[level]}; " if self.has_transactions else ""

    def set_in_transactions(self, settings: Mapping[str, str]) -> None:
        """Send settings with each transaction: behind a pooler, the settings of a session do not last."""
        with super().cursor(cursor_factory=driver.cursor) as cursor:
            statements = [
                cursor.mogrify(f"SET LOCAL {name} = %s; ", (value,)).decode() for name, value in settings.items()
            ]
        self._settings = "".join(statements)

    def prepare_statements(self) -> None:
        """Prepare statements from now on; only for a session that no other connection uses."""
        self.prepared = PreparedStatements()

    def cursor(self, name: str | None = None, **options: Any) -> Any:
        """A cursor; a cursor with a name is kept by the server, as long as the transaction lasts."""
        if name is None:
            return super().cursor(**options)
        # The driver does not know of the transaction, and without one it accepts only cursors WITH HOLD.
        return super().cursor(name, **{**options, "withhold": True})

    def defer(self, statement: str, parameters: Any) -> None:
        """Send a statement together with the next one; in AUTOCOMMIT, send it at once."""
        if not self.has_transactions:
            with self.cursor() as cursor:
                cursor.execute(statement, parameters)
            return
        text, values = statement, parameters
        if self.prepared is not None and isinstance(statement, Prepared):
            preparation, text, values = self.prepared.prepare_execution(statement, parameters)
            self._deferred.append(preparation)
        self._deferred.append(self._formatter.mogrify(text, values).decode() + "; ")

    def take_due_statements(self) -> str:
        """Return the statements that have to be sent before the next one, and remove them from the queue."""
        due = "".join(self._deferred)
        if self.get_transaction_status() == driver.TRANSACTION_STATUS_IDLE:
            # In autocommit mode `_begin` is empty. The settings then hold for this message, which is one transaction.
            due = self._begin + self._settings + due
        self._deferred.clear()
        return due

    def commit(self) -> None:
        """Send the deferred statements together with the COMMIT; send nothing if no transaction has begun."""
        if self.is_overdue:
            raise TransactionDeadlineExceeded
        if not self._deferred and self.get_transaction_status() == driver.TRANSACTION_STATUS_IDLE:
            return
        try:
            self._send(self.take_due_statements(), "COMMIT")
        except psycopg2.Error:
            # The caller treats the transaction as ended, even if the COMMIT fails.
            if not self.closed:
                self.rollback()
            raise

    def rollback(self) -> None:
        """End the transaction without its changes; send nothing if no transaction has begun."""
        self._deferred.clear()
        if self.prepared is not None and self.prepared.unconfirmed:
            self.prepared.forget_unconfirmed()
        if self.get_transaction_status() != driver.TRANSACTION_STATUS_IDLE:
            self._send("", "ROLLBACK")

    def send_separately(self, statements: str) -> None:
        """Send deferred statements in a message of their own, since the next message cannot begin with them."""
        self._send(statements, "")

    def _send(self, due: str, last: str) -> None:
        """Send the statements `due` and then `last`, which is COMMIT, ROLLBACK or nothing, in one message."""
        observed = nullcontext() if _observer is None else _observer(last or "BEGIN")
        with super().cursor(cursor_factory=driver.cursor) as cursor, observed:
            try:
                _transmit(cursor, due + last)
            except psycopg2.Error as error:
                if self.prepared is not None:
                    self.prepared.forget_unconfirmed(error)
                raise
        if self.prepared is not None and self.prepared.unconfirmed:
            self.prepared.confirm()


class PipeliningCursor(driver.cursor):  # type: ignore[misc]
    """A cursor that sends deferred statements in front of its own."""

    connection: PipeliningConnection

    def execute(self, query: str | bytes, vars: Any = None) -> None:
        """Send the deferred statements and then `query`; the cursor has the result of `query`.

        Raises TransactionDeadlineExceeded if the time of the transaction is over.
        """
        if self.connection.is_overdue:
            raise TransactionDeadlineExceeded
        due = self.connection.take_due_statements()
        message, values = query, vars
        prepared = self.connection.prepared
        if prepared is not None and self.name is None and isinstance(query, Prepared):
            preparation, message, values = prepared.prepare_execution(query, vars)
            due += preparation
        if due and self.name is not None:
            # The driver writes DECLARE in front of the statement of a named cursor.
            self.connection.send_separately(due)
        elif due:
            # The values are in the text of `due` already, so its percent signs are no placeholders.
            due = due if values is None else due.replace("%", "%%")
            message = due.encode() + message if isinstance(message, bytes) else due + message
        with nullcontext() if _observer is None else _observer(query):
            try:
                _transmit(self, message, values)
            except psycopg2.Error as error:
                if prepared is not None:
                    prepared.forget_unconfirmed(error)
                raise
        if prepared is not None and prepared.unconfirmed:
            prepared.confirm()

    def copy_expert(self, sql: Any, file: Any, size: int = 8192) -> None:
        """Execute a COPY with a file."""
        due = self.connection.take_due_statements()
        if due:
            self.connection.send_separately(due)
        with nullcontext() if _observer is None else _observer(sql):
            super().copy_expert(sql, file, size)


def fetch_rows(db: Connection, statement: str, parameters: Any) -> list[tuple[Any, ...]]:
    """Execute a statement in the driver's SQL, after all deferred statements, and return its rows.

    Costs a fraction of `Connection.exec_driver_sql`, which describes the result each time, and raises the same errors.
    """
    _announce(db, statement, parameters)
    try:
        cursor = PipeliningCursor(db.connection.dbapi_connection)
        cursor.execute(statement, parameters)
        rows: list[tuple[Any, ...]] = list(cursor.fetchall())
        return rows
    except psycopg2.Error as error:
        is_lost = db.dialect.is_disconnect(error, db.connection.dbapi_connection, None)
        raised = DBAPIError.instance(
            statement, parameters, error, psycopg2.Error, True, connection_invalidated=is_lost, dialect=db.dialect
        )
        if is_lost:
            db.invalidate(error)
        raise raised from error


def stream(db: Connection, statement: str, parameters: Any, rows_at_once: int) -> Iterable[Sequence[Any]]:
    """The rows that a statement reads, from a cursor of the server: only `rows_at_once` of them are in memory.

    They have to be read before the transaction ends.
    """
    return db.exec_driver_sql(statement, parameters, execution_options={"yield_per": rows_at_once})


def defer(db: Connection, statement: str, parameters: Any) -> None:
    """Execute a statement whose result is not read together with the next statement, at the latest with the COMMIT.

    Its errors are raised by the call that executes the next statement, or by the COMMIT.
    """
    _announce(db, statement, parameters)
    db.connection.dbapi_connection.defer(statement, parameters)  # type: ignore[union-attr]


def _announce(db: Connection, statement: str, parameters: Any) -> None:
    """Do what SQLAlchemy does before a statement: notify listeners, which count statements; begin a transaction."""
    db.dispatch.before_cursor_execute(db, None, statement, parameters, None, False)
    if not db.in_transaction() and db.connection.dbapi_connection.has_transactions:  # type: ignore[union-attr]
        db.begin()
