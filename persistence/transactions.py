"""The only place that commits and retries, for HTTP calls, the worker and the command line.

A transaction that exceeds its time is ended in the database, so that its locks are released.
"""

from __future__ import annotations

import os
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import Any, TypeVar

import psycopg2
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from domain.retries import StartOver
from persistence.connections import PipeliningConnection, TransactionDeadlineExceeded, defer
from persistence.prepared_statements import is_stale_plan

Result = TypeVar("Result")

DEADLOCK_DETECTED = "40P01"
SERIALIZATION_FAILURE = "40001"
UNIQUE_VIOLATION = "23505"
# The code with which Citus reports a unique violation if it copies rows to a node.
_FAILED_COPY = "XX000"
READ_ONLY = "25006"
DISK_FULL = "53100"
# Connection exceptions, insufficient resources, operator intervention. The last class has the code of a cancelled
# statement, too, which only took too long.
_UNAVAILABLE_CLASSES = ("08", "53", "57")
STATEMENT_CANCELLED = "57014"
LOCK_NOT_AVAILABLE = "55P03"
_UNDEFINED_TABLE, _UNDEFINED_COLUMN, _UNDEFINED_FUNCTION = "42P01", "42703", "42883"
ATTEMPTS = 8

# Citus names the constraint only in the message: with the number of the shard, and with a hash if the name is too long.
_OF_A_SHARD = re.compile(r"\b((?:ck|fk|pk|uq)_\w+?)(?:_[0-9a-f]{8})?_[0-9]{6,}\b")

# Keys that two calls may claim at once: the call that fails is retried, finds the record of the other call, and returns
# its result.
CLAIMED_KEYS = frozenset(
    {
        "uq_content_collections_organization_id_slug",
        "uq_coupon_locks_organization_id_system_unique_key",
        "uq_coupon_usages_organization_id_system_unique_key",
        "uq_coupons_organization_id_coupon_book_id_code",
        "uq_badge_trackings_organization_id_system_unique_key",
        "uq_events_organization_id_system_unique_key",
        "uq_expiry_extensions_organization_id_system_unique_key",
        "uq_ledger_transactions_organization_id_system_unique_key",
        "uq_members_organization_id_loyalty_member_id",
        "uq_members_organization_id_public_loyalty_member_id",
        "uq_member_tier_trackings_organization_id_system_unique_key",
        "uq_mission_trackings_organization_id_system_unique_key",
        "uq_offline_allowances_organization_id_redemption_key",
        "uq_purchase_orders_organization_id_external_id",
    }
)


_repeated: ContextVar[bool] = ContextVar("repeated", default=False)


def is_repeated() -> bool:
    """True if the running work is retried because it needed more locks than it had acquired."""
    return _repeated.get()


def run(engine: Engine, work: Callable[[Connection], Result]) -> Result:
    """Do `work` in one database transaction and commit; retry it if it loses a race for locks or keys.

    It is also retried if it raises StartOver, with `is_repeated` from then on, and if its connection is lost before the
    commit, for example by a restart of the database. Work has no effect outside the database, so it can be retried.
    Raises the exceptions of `work`, after a rollback, and TransactionDeadlineExceeded.
    """
    token = _repeated.set(False)
    try:
        for attempt in range(1, ATTEMPTS + 1):
            is_committing = False
            check_deadline()
            try:
                with engine.connect() as db, within_deadline(db):
                    result = work(db)
                    is_committing = True
                    db.commit()
                return result
            except StartOver:
                _repeated.set(True)
                if attempt == ATTEMPTS:
                    raise
                continue
            except DBAPIError as error:
                was_lost_before_commit = error.connection_invalidated and not is_committing
                if attempt == ATTEMPTS or not (was_lost_before_commit or is_retryable(error)):
                    raise
            # A random pause, so that transactions that have met do not meet again.
            time.sleep(random.uniform(0.0, 0.005 * 2**attempt))
        raise AssertionError("the loop above returns or raises")
    finally:
        _repeated.reset(token)


def read(engine: Engine, work: Callable[[Connection], Result]) -> Result:
    """Do `work`, which only reads, on an engine in AUTOCOMMIT.

    Retries it once if its connection was lost, or if the plan of a statement was out of date.
    """
    is_retry = False
    while True:
        check_deadline()
        try:
            with engine.connect() as db, within_deadline(db):
                return work(db)
        except DBAPIError as error:
            if is_retry or not (error.connection_invalidated or is_stale_plan(error.orig)):
                raise
        is_retry = True


def limit_lock_wait(db: Connection, milliseconds: int) -> None:
    """Limit the time that a statement of this transaction may wait for a lock."""
    defer(db, "SET LOCAL lock_timeout = %s", (milliseconds,))


def is_retryable(error: DBAPIError) -> bool:
    """True for a deadlock, a serialization failure, a key that another call has claimed, or an outdated plan."""
    code = getattr(error.orig, "pgcode", None)
    if code in (DEADLOCK_DETECTED, SERIALIZATION_FAILURE) or is_stale_plan(error.orig):
        return True
    return code in (UNIQUE_VIOLATION, _FAILED_COPY) and violated_constraint(error, CLAIMED_KEYS) is not None


def is_unavailable(error: BaseException) -> bool:
    """True if the database, not the statement, causes an error: it is unreachable, shutting down, full or read-only."""
    if not isinstance(error, DBAPIError):
        return False
    code = getattr(error.orig, "pgcode", None)
    if error.connection_invalidated or (code is None and isinstance(error, OperationalError | InterfaceError)):
        return True
    if code is None or code == STATEMENT_CANCELLED:
        return False
    return code[:2] in _UNAVAILABLE_CLASSES or code == READ_ONLY


def lacks_schema(error: DBAPIError) -> bool:
    """True if the database does not have a table, column or function that a statement needs."""
    code = getattr(error.orig, "pgcode", None)
    return code in (_UNDEFINED_TABLE, _UNDEFINED_COLUMN, _UNDEFINED_FUNCTION)


def is_lock_timeout(error: BaseException) -> bool:
    """True if a statement has waited for a lock as long as it may."""
    return getattr(getattr(error, "orig", None), "pgcode", None) == LOCK_NOT_AVAILABLE


def is_full(error: BaseException) -> bool:
    """True if the database's disk is full."""
    return getattr(getattr(error, "orig", None), "pgcode", None) == DISK_FULL


def violated_constraint(error: DBAPIError, constraints: Collection[str]) -> str | None:
    """The name of the violated constraint, if it is one of these; None if it is not."""
    diagnostics = getattr(error.orig, "diag", None)
    name = getattr(diagnostics, "constraint_name", None)
    if name is not None:
        return name if name in constraints else None
    match = _OF_A_SHARD.search(getattr(diagnostics, "message_primary", None) or "")
    if match is None:
        return None
    return next((name for name in constraints if name.startswith(match[1])), None)


class TransactionDeadline:
    """The deadline of the database transactions of one call; `expire` is called by another thread and ends them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # True if the time is over.
        self.is_expired = False
        # The connection that is being watched.
        self._connection: Any = None
        # The deadline of all calls of the same database transaction, of which this one is a part.
        self._joint: JointDeadline | None = None

    def expire(self) -> None:
        """End the statement that runs now, and refuse to begin or commit another transaction. Does not block."""
        with self._lock:
            self.is_expired = True
            if self._connection is not None:
                self._connection.is_overdue = True
                _cut(self._connection)
            joint = self._joint
        if joint is not None:
            joint.expire_with_the_last()

    def join(self, joint: JointDeadline | None) -> None:
        """Be a part of a joint deadline from now on; with None, be a part of no joint deadline any more."""
        with self._lock:
            self._joint = joint

    @contextmanager
    def of_thread(self) -> Iterator[None]:
        """Be the deadline of the database transactions of the running thread."""
        token = deadline_of_thread.set(self)
        try:
            yield
        finally:
            deadline_of_thread.reset(token)

    @contextmanager
    def watching(self, db: Connection) -> Iterator[None]:
        """Let `expire` end the work on a connection; raises TransactionDeadlineExceeded if it did.

        The connection is then discarded.
        """
        connection = db.connection.dbapi_connection
        with self._lock:
            if self.is_expired:
                raise TransactionDeadlineExceeded
            outer, self._connection = self._connection, connection
        try:
            yield
        except DBAPIError as error:
            if self.is_expired:
                raise TransactionDeadlineExceeded from error
            raise
        finally:
            with self._lock:
                self._connection = outer
            if self.is_expired:
                db.invalidate()
        if self.is_expired:
            raise TransactionDeadlineExceeded


def _cut(connection: PipeliningConnection) -> None:
    """Cut a connection to the database, whose statement another thread waits for; does not block.

    The other thread gets an error at once. PostgreSQL ends the statement when it next checks its connections
    (`client_connection_check_interval`). The driver's `cancel` would stop all threads of the process until the database
    responds, which a frozen database never does.
    """
    with suppress(psycopg2.InterfaceError, OSError):
        descriptor = connection.fileno()
        with socket.socket(fileno=os.dup(descriptor)) as duplicate:
            # If the other thread has just closed the connection, the number may belong to another file by now.
            if connection.fileno() == descriptor:
                duplicate.shutdown(socket.SHUT_RDWR)


class JointDeadline(TransactionDeadline):
    """The deadline of several calls that share a database transaction: it expires with the last of their deadlines."""

    def __init__(self, parts: Sequence[TransactionDeadline]) -> None:
        super().__init__()
        self._parts = parts
        for part in parts:
            # From now on, this deadline checks all parts whenever one of them expires.
            part.join(self)

    def expire_with_the_last(self) -> None:
        """Expire if all parts have expired."""
        if all(part.is_expired for part in self._parts):
            self.expire()

    def release(self) -> None:
        """Separate the parts: each is then only the deadline of its own call."""
        for part in self._parts:
            part.join(None)


deadline_of_thread: ContextVar[TransactionDeadline | None] = ContextVar("deadline", default=None)
"""The deadline of the call of the running thread; None if there is none."""


def within_deadline(db: Connection) -> AbstractContextManager[None]:
    """Work on a connection within the deadline of the running thread, if any; raises TransactionDeadlineExceeded."""
    deadline = deadline_of_thread.get()
    return nullcontext() if deadline is None else deadline.watching(db)


def check_deadline() -> None:
    """Raise TransactionDeadlineExceeded if the time of the running thread is over."""
    deadline = deadline_of_thread.get()
    if deadline is not None and deadline.is_expired:
        raise TransactionDeadlineExceeded


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End the database transactions of the running thread after `seconds`; then TransactionDeadlineExceeded is raised.

    Opening a connection can take up to CONNECT_TIMEOUT_SECONDS longer.
    """
    deadline = TransactionDeadline()
    timer = threading.Timer(seconds, deadline.expire)
    timer.daemon = True
    timer.start()
    try:
        with deadline.of_thread():
            yield
    finally:
        timer.cancel()
