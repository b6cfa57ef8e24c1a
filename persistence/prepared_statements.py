"""The statements that a connection has prepared, see `persistence.connections`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import psycopg2
import psycopg2.errors

if TYPE_CHECKING:
    from persistence.connections import Prepared

# Tables grow, and a plan that was good for a small table may be bad for a large one: plans are discarded this often.
PLANS_KEPT_SECONDS = 2.0


class PreparedStatements:
    """The statements that one connection has prepared.

    If a message that prepares statements fails, it is unknown which of them are prepared: a later message prepares them
    again, under other names. `queue` are the statements that the next message has in front of its own.
    """

    def __init__(self, queue: list[str]) -> None:
        self._queue = queue
        self._names: dict[str, str] = {}
        # The texts of the statements that the next message prepares, until it has succeeded.
        self.unconfirmed: list[str] = []
        self._number = 0
        self._plans_until = 0.0

    def prepare_execution(self, statement: Prepared, parameters: Any) -> tuple[str, Any]:
        """Return the text and values to send for a statement; queue its PREPARE, and DISCARD PLANS if plans are old."""
        form = statement.prepared_form(parameters)
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
        """Note that a message succeeded, which has prepared its statements."""
        self.unconfirmed.clear()

    def forget_unconfirmed(self, error: psycopg2.Error | None = None) -> None:
        """Forget the statements whose preparation the database has not confirmed.

        If the error reports a stale plan, forget all.
        """
        if is_stale_plan(error):
            self.forget_all()
        for text in self.unconfirmed:
            self._names.pop(text, None)
        self.unconfirmed.clear()

    def forget_all(self) -> None:
        """Forget all statements; they are prepared again, under other names, when they are next executed."""
        self._names.clear()
        self.unconfirmed.clear()


def is_stale_plan(error: BaseException | None) -> bool:
    """True if a column that a prepared statement reads has another type now, such as after a migration."""
    return isinstance(error, psycopg2.errors.FeatureNotSupported) and "cached plan" in str(error)
