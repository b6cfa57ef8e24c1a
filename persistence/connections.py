"""The connections of the pool: they begin, write and commit in as few round trips to the database as possible.

A statement whose result is not read is deferred: it is sent in one message with the next statement whose result is
read, in front of that statement, or with the COMMIT. Long statements can be sent ahead: PostgreSQL executes them while
the caller prepares the next ones. BEGIN is sent with the first statement. PostgreSQL executes the statements of a
message one after the other, each with its own snapshot; the first one that fails ends the transaction, and its error is
raised by the call that sent the message, or for a message sent ahead by the call that sends the next one.

Frequent statements are `Prepared`: the database parses and plans them once for each connection. psycopg2 has no
prepared statements, so the SQL statement PREPARE is used. The statement

    SELECT name FROM members WHERE organization_id = %s AND member_id = ANY(%s::bigint[])

is sent for the member 7 of the organization 3 as

    PREPARE select_members_1 AS SELECT ... WHERE organization_id = $1 AND member_id = ANY(ARRAY[$2]::bigint[]);
    EXECUTE select_members_1 (3, 7)

and for every other member on this connection only by EXECUTE. Lists have one of a few sizes, so a list of several
members is filled up by repeating the last one:

    PREPARE select_members_2 AS SELECT ... AND member_id = ANY(ARRAY[$2,$3,$4,$5]::bigint[]);
    EXECUTE select_members_2 (3, 7, 8, 9, 9)
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import copy_context
from itertools import count
from typing import Any

import psycopg2
import psycopg2.extensions as driver
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from persistence.prepared_statements import PreparedStatements

PLACEHOLDER = re.compile(r"(LIMIT |(?:ANY|any) ?\((?:CAST\()?)?%(?:\((\w+)\))?s|%%")
# The kinds of values for a placeholder; other kinds need another statement: a single value, an empty list, the number 1
# behind LIMIT, and a list of one value. A greater number is the length to which a list in `= ANY(...)` is filled up.
#
# A plan without values assumes an organization of average size. The longer the list, the more likely it reads all rows
# of the organization, which may be the largest one: statements with longer lists are planned for their values.
_SCALAR, _EMPTY, _LIMIT_ONE, _ONE = -2, -1, 0, 1
_LIST_SIZES = (1, 4, 16)
_VERB = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
_TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE)\s+([a-z_]{3,40})\b(?!\()", re.IGNORECASE)


class TransactionDeadlineExceeded(Exception):
    """The time of the database transaction is over; nothing was committed."""


class Prepared(str):
    """A statement of frequent calls, which each connection prepares before it first executes it.

    Its lists are for `= ANY(...)`, where they are sets: all lists of a call are filled up to the same size, one of
    `_LIST_SIZES`, by repeating their last value. With a longer list, or with several values in another place, the
    statement is not prepared, so that the planner sees the values. The types of the parameters follow from the
    statement; lists of anything but texts need a cast.
    """

    def __init__(self, statement: str) -> None:
        super().__init__()
        matches = [match for match in PLACEHOLDER.finditer(statement) if match[0] != "%%"]
        # The name or position of each parameter, and the word in front of it: LIMIT or ANY.
        self._placeholders = [
            (match[2] or position, (match[1] or "").split("(")[0].strip().upper())
            for position, match in enumerate(matches)
        ]
        # The beginning of the name of the prepared statement, by which operators recognize it while it runs.
        self.subject = "_".join(
            match[1].lower() for match in (_VERB.search(statement), _TABLE.search(statement)) if match
        )
        # The texts for PREPARE, by the kinds of values for all placeholders.
        self._texts: dict[tuple[int, ...], str] = {}

    def prepared_form(self, parameters: Any) -> tuple[str, list[Any]] | None:
        """The text for PREPARE and the values for EXECUTE; None if these values need an unprepared statement."""
        longest = 1
        for name, word in self._placeholders:
            value = parameters[name]
            if isinstance(value, list):
                if len(value) > 1 and word != "ANY":
                    return None
                longest = max(longest, len(value))
            elif word == "LIMIT" and value > _LIST_SIZES[-1]:
                return None
        if longest > _LIST_SIZES[-1]:
            return None
        size = _LIST_SIZES[bisect_left(_LIST_SIZES, longest)]
        kinds, values = [], []
        for name, word in self._placeholders:
            value, kind = parameters[name], _SCALAR
            if isinstance(value, list):
                kind = (size if word == "ANY" else _ONE) if value else _EMPTY
                values += value + value[-1:] * (kind - len(value))
            elif word == "LIMIT" and value == 1:
                kind = _LIMIT_ONE
            else:
                values.append(value)
            kinds.append(kind)
        shape = tuple(kinds)
        text = self._texts.get(shape)
        if text is None:
            text = self._texts[shape] = self._text(iter(kinds))
        return text, values

    def _text(self, kinds: Iterator[int]) -> str:
        """The statement with `$1`, `$2` and so on for its placeholders, whose values are of these kinds."""
        numbers = count(1)

        def number_placeholder(placeholder: re.Match[str]) -> str:
            if placeholder[0] == "%%":
                return "%"
            kind, before = next(kinds), placeholder[1] or ""
            if kind == _SCALAR:
                return f"{before}${next(numbers)}"
            if kind == _LIMIT_ONE:
                return "LIMIT 1"
            if kind == _EMPTY:
                return f"{before}'{{}}'"
            return f"{before}ARRAY[{', '.join([f'${next(numbers)}' for _ in range(kind)])}]"

        return PLACEHOLDER.sub(number_placeholder, self)


_LEVELS = {
    driver.ISOLATION_LEVEL_READ_COMMITTED: "READ COMMITTED",
    driver.ISOLATION_LEVEL_REPEATABLE_READ: "REPEATABLE READ",
    driver.ISOLATION_LEVEL_SERIALIZABLE: "SERIALIZABLE",
}


# Returns the context in which a message with this statement is sent and its result is received.
Observer = Callable[[str | bytes], AbstractContextManager[Any]]

_observer: Observer | None = None


def observe_messages(observer: Observer | None) -> None:
    """From now on, send the messages of all connections in the contexts that the observer returns; None ends this.

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
        # A thread that waits for the message that was sent ahead, since the driver waits for each message.
        self._waiter = ThreadPoolExecutor(1, "message-ahead")
        self._message_ahead: Future[None] | None = None

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
        self.prepared = PreparedStatements(self._deferred)

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
            text, values = self.prepared.prepare_execution(statement, parameters)
        self._deferred.append(self._formatter.mogrify(text, values).decode() + "; ")

    def take_due_statements(self) -> str:
        """Return the statements that have to be sent before the next one, and remove them from the queue.

        Wait for the message that was sent ahead, if any; raises its error.
        """
        self._finish_message_ahead()
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
        is_idle = self._message_ahead is None and self.get_transaction_status() == driver.TRANSACTION_STATUS_IDLE
        if is_idle and not self._deferred:
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
        with suppress(psycopg2.Error):
            self._finish_message_ahead()
        self._deferred.clear()
        if self.prepared is not None and self.prepared.unconfirmed:
            self.prepared.forget_unconfirmed()
        if self.get_transaction_status() != driver.TRANSACTION_STATUS_IDLE:
            self._send("", "ROLLBACK")

    def send_ahead(self) -> None:
        """Send the deferred statements now, and return while the database executes them.

        The next message is sent after they have ended; the call that sends it raises their errors.
        """
        if not self._deferred:
            return
        due = self.take_due_statements()
        if self.prepared is not None:
            # If the message fails, all prepared statements are forgotten.
            self.prepared.confirm()
        self._message_ahead = self._waiter.submit(copy_context().run, self._transmit_ahead, due)

    def _transmit_ahead(self, due: str) -> None:
        observed = nullcontext() if _observer is None else _observer("BEGIN")
        with super().cursor(cursor_factory=driver.cursor) as cursor, observed:
            _transmit(cursor.execute, due)

    def _finish_message_ahead(self) -> None:
        """Wait for the message that was sent ahead, if any; raises its error."""
        message, self._message_ahead = self._message_ahead, None
        try:
            if message is not None:
                message.result()
        except psycopg2.Error:
            if self.prepared is not None:
                self.prepared.forget_all()
            raise

    def send_separately(self, statements: str) -> None:
        """Send deferred statements in a message of their own, since the next message cannot begin with them."""
        self._send(statements, "")

    def _send(self, due: str, last: str) -> None:
        """Send the statements `due` and then `last`, which is COMMIT, ROLLBACK or nothing, in one message."""
        observed = nullcontext() if _observer is None else _observer(last or "BEGIN")
        with super().cursor(cursor_factory=driver.cursor) as cursor, observed:
            try:
                _transmit(cursor.execute, due + last)
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
        """Send the deferred statements and then `query`; its result is the result.

        Raises TransactionDeadlineExceeded if the time of the transaction is over.
        """
        if self.connection.is_overdue:
            raise TransactionDeadlineExceeded
        message, values = query, vars
        prepared = self.connection.prepared
        if prepared is not None and self.name is None and isinstance(query, Prepared):
            message, values = prepared.prepare_execution(query, vars)
        due = self.connection.take_due_statements()
        if due and self.name is not None:
            # The driver writes DECLARE in front of the statement of a named cursor.
            self.connection.send_separately(due)
        elif due:
            # The values are in the text of `due` already, so its percent signs are no placeholders.
            due = due if values is None else due.replace("%", "%%")
            message = due.encode() + message if isinstance(message, bytes) else due + message
        with nullcontext() if _observer is None else _observer(query):
            try:
                _transmit(super().execute, message, values)
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


def _transmit(execute: Callable[..., None], message: str | bytes, parameters: Any = None) -> None:
    """Send one message to the database, and wait for the result."""
    execute(message, parameters)


def query(db: Connection, statement: str, parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of a statement in the driver's SQL.

    It costs a fraction of `Connection.exec_driver_sql`, which describes its result each time, and raises the same
    errors.
    """
    _announce(db, statement, parameters)
    try:
        cursor = PipeliningCursor(db.connection.dbapi_connection)
        cursor.execute(statement, parameters)
        rows: list[tuple[Any, ...]] = list(cursor.fetchall())
        return rows
    except psycopg2.Error as error:
        raise _translate_error(db, statement, parameters, error) from error


def _translate_error(db: Connection, statement: str, parameters: Any, error: psycopg2.Error) -> BaseException:
    """Return the error of SQLAlchemy for an error of the driver; discard a lost connection."""
    is_lost = db.dialect.is_disconnect(error, db.connection.dbapi_connection, None)
    translated: BaseException = DBAPIError.instance(
        statement, parameters, error, psycopg2.Error, True, connection_invalidated=is_lost, dialect=db.dialect
    )
    if is_lost:
        db.invalidate(error)
    return translated


def defer(db: Connection, statement: str, parameters: Any) -> None:
    """Execute a statement whose result is not read together with the next statement, at the latest with the COMMIT.

    Its errors are raised by the call that executes the next statement, or by the COMMIT.
    """
    _announce(db, statement, parameters)
    db.connection.dbapi_connection.defer(statement, parameters)  # type: ignore[union-attr]


def send_ahead(db: Connection) -> None:
    """Send the deferred statements now, and return while the database executes them.

    The next call of a function that sends statements waits for their end, and raises their errors.
    """
    try:
        db.connection.dbapi_connection.send_ahead()  # type: ignore[union-attr]
    except psycopg2.Error as error:
        raise _translate_error(db, "", (), error) from error


def _announce(db: Connection, statement: str, parameters: Any) -> None:
    """Do what SQLAlchemy does before a statement: notify listeners, which count statements; begin a transaction."""
    db.dispatch.before_cursor_execute(db, None, statement, parameters, None, False)
    if not db.in_transaction() and db.connection.dbapi_connection.has_transactions:  # type: ignore[union-attr]
        db.begin()
