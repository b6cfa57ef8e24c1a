"""Statements that a connection has the database parse and plan once, and the names that a connection has given them.

psycopg2 does not prepare statements, SQL does. The statement

    SELECT name FROM members WHERE organization_id = %s AND member_id = ANY(%s::bigint[])

is sent for the member 7 of the organization 3 as

    PREPARE select_members_1 AS SELECT ... WHERE organization_id = $1 AND member_id = ANY(ARRAY[$2]::bigint[]);
    EXECUTE select_members_1 (3, 7)

and for every other member on this connection by EXECUTE alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import psycopg2
import psycopg2.errors

# Tables grow, and a plan that was good for a small one may be bad for a large one: plans are made again so often.
PLANS_KEPT_SECONDS = 2.0

PLACEHOLDER = re.compile(r"(LIMIT )?%(?:\((\w+)\))?s|%%")
# The kinds of values for a placeholder, each of which makes another statement: any value, a list of one, an empty list,
# and the number 1 behind LIMIT.
_SCALAR, _ONE, _NONE, _LIMIT_ONE = range(4)
_VERB = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
_TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE)\s+([a-z_]{3,40})\b(?!\()", re.IGNORECASE)


class Prepared(str):
    """A statement that each connection prepares when it first sends it, for calls that come often.

    It is prepared for one record: where a list of its parameters has several members, or its LIMIT is not 1, it is
    planned for these values, as any other statement. The types of its parameters follow from the statement; lists of
    anything but texts need a cast.
    """

    def __init__(self, statement: str) -> None:
        super().__init__()
        matches = [match for match in PLACEHOLDER.finditer(statement) if match[0] != "%%"]
        # The name or position of each parameter, and if it is a LIMIT.
        self._places = [(match[2] or position, match[1] is not None) for position, match in enumerate(matches)]
        # It begins its name, which is what people see of it while it runs.
        self.subject = "_".join(
            match[1].lower() for match in (_VERB.search(statement), _TABLE.search(statement)) if match
        )
        # The text that PREPARE takes, by the kinds of values for its places.
        self._texts: dict[tuple[int, ...], str] = {}

    def form(self, parameters: Any) -> tuple[str, list[Any]] | None:
        """The text that PREPARE takes, and the values for EXECUTE; None if it is to be planned for its values."""
        kinds, values = [], []
        for name, is_limit in self._places:
            value, kind = parameters[name], _SCALAR
            if is_limit:
                kind = _LIMIT_ONE
                if value != 1:
                    return None
            elif isinstance(value, list):
                if len(value) > 1:
                    return None
                kind = _ONE if value else _NONE
                values += value
            else:
                values.append(value)
            kinds.append(kind)
        shape = tuple(kinds)
        text = self._texts.get(shape)
        if text is None:
            text = self._texts[shape] = self._text(iter(kinds))
        return text, values

    def _text(self, kinds: Iterator[int]) -> str:
        """The statement with numbers in place of its placeholders."""
        numbers = count(1)

        def numbered(placeholder: re.Match[str]) -> str:
            if placeholder[0] == "%%":
                return "%"
            kind = next(kinds)
            if kind == _LIMIT_ONE:
                return "LIMIT 1"
            if kind == _NONE:
                return "'{}'"
            return f"ARRAY[${next(numbers)}]" if kind == _ONE else f"{placeholder[1] or ''}${next(numbers)}"

        return PLACEHOLDER.sub(numbered, self)


class PreparedStatements:
    """The statements that one connection has prepared.

    A message may prepare some and then fail, and nobody knows how far it came: what it was to prepare is prepared again
    by a later one, under another name. `queue` is what the next message has in front of its statement.
    """

    def __init__(self, queue: list[str]) -> None:
        self._queue = queue
        self._names: dict[str, str] = {}
        # Those that the next message prepares.
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
        """Forget the statements that a message was to prepare, or all after the error of a stale plan."""
        forgotten = list(self._names) if is_stale_plan(error) else self.unconfirmed
        for text in forgotten:
            self._names.pop(text, None)
        self.unconfirmed.clear()


def is_stale_plan(error: BaseException | None) -> bool:
    """True if a column that a prepared statement reads has got another type, as a migration may change it."""
    return isinstance(error, psycopg2.errors.FeatureNotSupported) and "cached plan" in str(error)
