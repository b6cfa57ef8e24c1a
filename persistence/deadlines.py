"""Deadlines: a unit of work that exceeds its time is ended in the database, so that its locks are released."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import Any

import psycopg2
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError


class TransactionDeadlineExceeded(Exception):
    """The time of the unit of work is over; nothing of it was committed."""


class TransactionDeadline:
    """The end of one unit of work, triggered by `expire` from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expired = False
        self._working: Any = None
        self._joint: JointDeadline | None = None

    @property
    def expired(self) -> bool:
        """True once the time is over."""
        return self._expired

    def expire(self) -> None:
        """End the statement that runs now, and refuse to begin or commit another unit of work."""
        with self._lock:
            self._expired = True
            if self._working is not None:
                with suppress(psycopg2.Error):
                    self._working.cancel()
            joint = self._joint
        if joint is not None:
            joint.expire_with_the_last()

    def join(self, joint: JointDeadline | None) -> None:
        """Be part of a joint deadline from now on, or of none any more."""
        with self._lock:
            self._joint = joint

    def check(self) -> None:
        """Raise TransactionDeadlineExceeded if the time is over."""
        if self._expired:
            raise TransactionDeadlineExceeded

    @contextmanager
    def watching(self, db: Connection) -> Iterator[None]:
        """Watch over the work on a connection; raises TransactionDeadlineExceeded if it was ended.

        The connection is then discarded, as the request to end may come late.
        """
        self.check()
        with self._lock:
            self._working = db.connection.dbapi_connection
        try:
            yield
        except DBAPIError as error:
            if self._expired:
                raise TransactionDeadlineExceeded from error
            raise
        finally:
            with self._lock:
                self._working = None
            if self._expired:
                db.invalidate()
        self.check()


class JointDeadline(TransactionDeadline):
    """The deadline of several calls that are done in one unit of work: it expires with the last of theirs."""

    def __init__(self, parts: Sequence[TransactionDeadline]) -> None:
        super().__init__()
        self._parts = parts
        for part in parts:
            part.join(self)

    def expire_with_the_last(self) -> None:
        """Expire if all parts have."""
        if all(part.expired for part in self._parts):
            self.expire()

    def release(self) -> None:
        """Give the parts free, each to be the deadline of its call alone."""
        for part in self._parts:
            part.join(None)


deadline_of_thread: ContextVar[TransactionDeadline | None] = ContextVar("deadline", default=None)
"""The deadline of the running thread's unit of work; None if there is none."""


def check_deadline() -> None:
    """Raise TransactionDeadlineExceeded if the running thread's deadline has passed."""
    deadline = deadline_of_thread.get()
    if deadline is not None and deadline._expired:
        raise TransactionDeadlineExceeded


def within_deadline(db: Connection) -> AbstractContextManager[None]:
    """Work on a connection within the deadline of the running thread, if any; raises TransactionDeadlineExceeded."""
    deadline = deadline_of_thread.get()
    return nullcontext() if deadline is None else deadline.watching(db)
