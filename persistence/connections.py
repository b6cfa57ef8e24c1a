"""The connections of the pool: they begin, write and commit in as few round trips to the database as possible.

A statement whose result is not read is deferred: it is sent in one message with the next statement that is read, before
it, or with the COMMIT. BEGIN is sent with the first statement. PostgreSQL executes them one after the other as
if each had come by itself, each with a snapshot of its own; the first that fails ends the transaction, and its error is
raised by whatever sent it.

Statements that come often are `Prepared`: the database parses and plans them once for each connection. psycopg2 does
not prepare statements, SQL does. The statement

    SELECT name FROM members WHERE organization_id = %s AND member_id = ANY(%s::bigint[])

is sent for the member 7 of the organization 3 as

    PREPARE select_members_1 AS SELECT ... WHERE organization_id = $1 AND member_id = ANY(ARRAY[$2]::bigint[]);
    EXECUTE select_members_1 (3, 7)

and for every other member on this connection only by EXECUTE. Several members are sent as the next greater of a few
sizes of lists, by repeating the last one:

    PREPARE select_members_2 AS SELECT ... AND member_id = ANY(ARRAY[$2,$3,$4,$5]::bigint[]);
    EXECUTE select_members_2 (3, 7, 8, 9, 9)
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import Any

import psycopg2
import psycopg2.errors
import psycopg2.extensions as driver
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

# Tables grow, and a plan that was good for a small one may be bad for a large one: plans are made again so often.
PLANS_KEPT_SECONDS = 2.0

PLACEHOLDER = re.compile(r"(LIMIT |(?:ANY|any) ?\((?:CAST\()?)?%(?:\((\w+)\))?s|%%")
# The kinds of values for a placeholder, each of which makes another statement: any value, an empty list, the number 1
# behind LIMIT, and a list of one. A greater number is a list in `= ANY(...)`, filled up to this length.
#
# A plan that knows no values takes an organization for one of average size. The longer the list, the sooner it reads
# all rows of the organization, which may be the largest one: longer lists are planned for their values.
_SCALAR, _EMPTY, _LIMIT_ONE, _ONE = -2, -1, 0, 1
_LIST_SIZES = (1, 4, 16)
_VERB = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
_TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE)\s+([a-z_]{3,40})\b(?!\()", re.IGNORECASE)


class TransactionDeadlineExceeded(Exception):
    """The time of the unit of work is over; nothing of it was committed."""


class Prepared(str):
    """A statement that each connection prepares when it first sends it, for calls that come often.

    Its lists are for `= ANY(...)`, where they are sets: lists of several values are filled up with the last one to the
    same size, one of `_LIST_SIZES`. With a longer list, or with several values anywhere else, the statement is not
    prepared, so the planner sees its values. The types of its parameters follow from the statement; lists of anything
    but texts need a cast.
    """

    def __init__(self, statement: str) -> None:
        super().__init__()
        matches = [match for match in PLACEHOLDER.finditer(statement) if match[0] != "%%"]
        # The name or position of each parameter, and the word in front of it: LIMIT or ANY.
        self._places = [
            (match[2] or position, (match[1] or "").split("(")[0].strip().upper())
            for position, match in enumerate(matches)
        ]
        # It begins its name, which is what people see of it while it runs.
        self.subject = "_".join(
            match[1].lower() for match in (_VERB.search(statement), _TABLE.search(statement)) if match
        )
        # The text that PREPARE takes, by the kinds of values for its places.
        self._texts: dict[tuple[int, ...], str] = {}

    def form(self, parameters: Any) -> tuple[str, list[Any]] | None:
        """The text that PREPARE takes, and the values for EXECUTE; None if it is to be planned for its values."""
        longest = 1
        for name, word in self._places:
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
        for name, word in self._places:
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
        """The statement with numbers in place of its placeholders, for such kinds of values."""
        numbers = count(1)

        def numbered(placeholder: re.Match[str]) -> str:
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

        return PLACEHOLDER.sub(numbered, self)


class PreparedStatements:
    """The statements that one connection has prepared.

    A message may prepare some and then fail, and it is unknown how far it came: a later message prepares these
    statements again, under another name. `queue` is what the next message has in front of its statement.
    """

    def __init__(self, queue: list[str]) -> None:
        self._queue = queue
        self._names: dict[str, str] = {}
        # The statements that the next message prepares.
        self.unconfirmed: list[str] = []
        self._number = 0
        self._plans_until = 0.0

    def execution(self, statement: Prepared, parameters: Any) -> tuple[str, Any]:
        """The text and values to send for a statement; queues what has to come before it."""
        form = statement.form(parameters)
        if form is None:
            return statement, parameters
        text, values = form
        if time.monotonic() >= self._plans_until:
            self._plans_until = time.monotonic() + PLANS_KEPT_SECONDS
            self._queue.append("DISCARD PLANS; ")
        name = self._names.get(text)
        if name is None:
            self._number += 1
            name = self._names[text] = f"{statement.subject}_{self._number}"
            self.unconfirmed.append(text)
            self._queue.append(f"PREPARE {name} AS {text}; ")
        if not values:
            return f"EXECUTE {name}", None
        return f"EXECUTE {name} ({', '.join(['%s'] * len(values))})", values

    def confirm(self) -> None:
        """Take the statements that a message was to prepare for prepared, after its success."""
        self.unconfirmed.clear()

    def forget_unconfirmed(self, error: psycopg2.Error | None = None) -> None:
        """Forget the statements whose preparation the database has not confirmed.

        If the error reports a stale plan, forget all.
        """
        forgotten = list(self._names) if is_stale_plan(error) else self.unconfirmed
        for text in forgotten:
            self._names.pop(text, None)
        self.unconfirmed.clear()


def is_stale_plan(error: BaseException | None) -> bool:
    """True if a column that a prepared statement reads has got another type, as a migration may change it."""
    return isinstance(error, psycopg2.errors.FeatureNotSupported) and "cached plan" in str(error)


_LEVELS = {
    driver.ISOLATION_LEVEL_READ_COMMITTED: "READ COMMITTED",
    driver.ISOLATION_LEVEL_REPEATABLE_READ: "REPEATABLE READ",
    driver.ISOLATION_LEVEL_SERIALIZABLE: "SERIALIZABLE",
}


# The context in which a message with a statement is sent and its result received.
Observer = Callable[[str | bytes], AbstractContextManager[Any]]

_observer: Observer | None = None


def observe_messages(observer: Observer | None) -> None:
    """Send the messages of all connections in the context that the observer makes of the statement; None ends it.

    The observer gets the statement without its values, and none of the statements that are sent in front of it.
    """
    global _observer
    _observer = observer


class PipeliningConnection(driver.connection):  # type: ignore[misc]
    """A connection of psycopg2 that pipelines: it sends what needs no reply in the message of the next statement.

    It begins and ends its transactions itself: the driver, which would send BEGIN and COMMIT in messages of their own,
    is in its mode without transactions.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.autocommit = True
        self.cursor_factory = PipeliningCursor
        self._begin = "BEGIN; "
        # False if each statement is a transaction of its own.
        self.has_transactions = True
        self._settings = ""
        self._deferred: list[str] = []
        self._formatter = super().cursor(cursor_factory=driver.cursor)
        # None if a pooler shares the session among connections, or the database is a Citus cluster.
        self.prepared: PreparedStatements | None = None
        # The time of its unit of work is over: it sends nothing more.
        self.is_overdue = False

    def set_isolation_level(self, level: int | None) -> None:
        """Choose the level of transactions that begin from now on; AUTOCOMMIT is none at all."""
        self.has_transactions = level != driver.ISOLATION_LEVEL_AUTOCOMMIT
        self._begin = f"BEGIN ISOLATION LEVEL {_LEVELS[level]}; " if self.has_transactions else ""

    def set_in_transactions(self, settings: Mapping[str, str]) -> None:
        """Send settings with each transaction: those of a session would not go with it through a pooler."""
        with super().cursor(cursor_factory=driver.cursor) as cursor:
            statements = [
                cursor.mogrify(f"SET LOCAL {name} = %s; ", (value,)).decode() for name, value in settings.items()
            ]
        self._settings = "".join(statements)

    def prepare_statements(self) -> None:
        """Prepare statements from now on; only for a session that no other connection uses."""
        self.prepared = PreparedStatements(self._deferred)

    def cursor(self, name: str | None = None, **options: Any) -> Any:
        """A cursor; one with a name is kept by the server and lives as long as its transaction."""
        if name is None:
            return super().cursor(**options)
        # The driver, which does not know of the transaction, accepts no other kind.
        return super().cursor(name, **{**options, "withhold": True})

    def defer(self, statement: str, parameters: Any) -> None:
        """Send a statement together with the next one."""
        if not self.has_transactions:
            with self.cursor() as cursor:
                cursor.execute(statement, parameters)
            return
        text, values = statement, parameters
        if self.prepared is not None and isinstance(statement, Prepared):
            text, values = self.prepared.execution(statement, parameters)
        self._deferred.append(self._formatter.mogrify(text, values).decode() + "; ")

    def take_due(self) -> str:
        """Take the statements that have to be sent before the next one; they count as sent."""
        due = "".join(self._deferred)
        if self.get_transaction_status() == driver.TRANSACTION_STATUS_IDLE:
            # Without BEGIN, settings hold for the message, which is one transaction.
            due = self._begin + self._settings + due
        self._deferred.clear()
        return due

    def commit(self) -> None:
        """Send what is deferred together with the COMMIT; nothing is sent if no transaction has begun."""
        if self.is_overdue:
            raise TransactionDeadlineExceeded
        if not self._deferred and self.get_transaction_status() == driver.TRANSACTION_STATUS_IDLE:
            return
        try:
            self._send(self.take_due(), "COMMIT")
        except psycopg2.Error:
            # Who commits takes the transaction for ended, whatever comes of it.
            if not self.closed:
                self.rollback()
            raise

    def rollback(self) -> None:
        """End the transaction without its changes; nothing is sent if none has begun."""
        self._deferred.clear()
        if self.prepared is not None and self.prepared.unconfirmed:
            self.prepared.forget_unconfirmed()
        if self.get_transaction_status() != driver.TRANSACTION_STATUS_IDLE:
            self._send("", "ROLLBACK")

    def send(self, statements: str) -> None:
        """Send statements in one message."""
        self._send(statements, "")

    def _send(self, due: str, last: str) -> None:
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
        """Execute a statement; the result is only that of this statement. Raises TransactionDeadlineExceeded."""
        if self.connection.is_overdue:
            raise TransactionDeadlineExceeded
        message, values = query, vars
        prepared = self.connection.prepared
        if prepared is not None and self.name is None and isinstance(query, Prepared):
            message, values = prepared.execution(query, vars)
        due = self.connection.take_due()
        if due and self.name is not None:
            self.connection.send(due)
        elif due:
            # Parameters were written into what is due, so its percent signs are text.
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
        due = self.connection.take_due()
        if due:
            self.connection.send(due)
        with nullcontext() if _observer is None else _observer(sql):
            super().copy_expert(sql, file, size)


def _transmit(execute: Callable[..., None], message: str | bytes, parameters: Any = None) -> None:
    """Send one message to the database, and wait for the result."""
    execute(message, parameters)


def query(db: Connection, statement: str, parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of a statement in the driver's SQL.

    It costs a fraction of `Connection.exec_driver_sql`, which describes its result each time. Raises the same
    errors.
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


def defer(db: Connection, statement: str, parameters: Any) -> None:
    """Execute a statement whose result is not read, together with the next one, at the latest with the COMMIT.

    Its errors are raised there.
    """
    _announce(db, statement, parameters)
    db.connection.dbapi_connection.defer(statement, parameters)  # type: ignore[union-attr]


def _announce(db: Connection, statement: str, parameters: Any) -> None:
    """Notify the listeners of statements, which count them, and begin SQLAlchemy's transaction, as it does itself."""
    db.dispatch.before_cursor_execute(db, None, statement, parameters, None, False)
    if not db.in_transaction() and db.connection.dbapi_connection.has_transactions:  # type: ignore[union-attr]
        db.begin()
