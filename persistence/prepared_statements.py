"""Prepared statements: the database parses and plans frequent statements once for each connection.

psycopg2 has no prepared statements, so the SQL statement PREPARE is used. The statement

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
import time
from bisect import bisect_left
from collections.abc import Iterator
from itertools import count
from typing import Any

import psycopg2
import psycopg2.errors

# A placeholder, with LIMIT or ANY if it is behind such a word, and with its name if it has one; or an escaped `%`.
PLACEHOLDER = re.compile(r"(?P<before>LIMIT |(?:ANY|any) ?\((?:CAST\()?)?%(?:\((?P<name>\w+)\))?s|%%")
# The kinds of values for a placeholder: for other kinds the text for PREPARE is another one. The kind of a single value
# is `_SCALAR`, that of the number 1 behind LIMIT `_LIMIT_ONE`, that of an empty list `_EMPTY`. The kind of another list
# is the number of elements of its array, of which the last ones repeat the last value of the list: see `_LIST_SIZES`.
#
# A plan without values assumes an organization of average size. The longer the list, the more likely it reads all rows
# of the organization, which may be the largest one: statements with longer lists are planned for their values.
_SCALAR, _EMPTY, _LIMIT_ONE, _ONE_ELEMENT = -2, -1, 0, 1
_LIST_SIZES = (1, 4, 16)
_VERB = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
_TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE)\s+([a-z_]{3,40})\b(?!\()", re.IGNORECASE)
# Tables grow, and a plan that was good for a small table may be bad for a large one: plans are discarded this often.
PLANS_KEPT_SECONDS = 2.0


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
            (match["name"] or position, (match["before"] or "").split("(")[0].strip().upper())
            for position, match in enumerate(matches)
        ]
        # The beginning of the name of the prepared statement, by which operators recognize it while it runs.
        self.subject = "_".join(
            match[1].lower() for match in (_VERB.search(statement), _TABLE.search(statement)) if match
        )
        # The texts for PREPARE, by the kinds of values for all placeholders.
        self._texts: dict[tuple[int, ...], str] = {}

    def prepared_form(self, parameters: Any) -> tuple[str, list[Any]] | None:
        """The text for PREPARE and the values for EXECUTE; None for parameters that need an unprepared statement.

        These are lists or a LIMIT above the greatest of `_LIST_SIZES`, and lists of several values in another place
        than `= ANY(...)`.
        """
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
                kind = (size if word == "ANY" else _ONE_ELEMENT) if value else _EMPTY
                values += value + value[-1:] * (kind - len(value))
            elif word == "LIMIT" and value == 1:
                kind = _LIMIT_ONE
            else:
                values.append(value)
            kinds.append(kind)
        kinds_of_text = tuple(kinds)
        text = self._texts.get(kinds_of_text)
        if text is None:
            text = self._texts[kinds_of_text] = self._text_for(iter(kinds))
        return text, values

    def _text_for(self, kinds: Iterator[int]) -> str:
        """The text for PREPARE, with `$1`, `$2` and so on for the values.

        `kinds` has the kind of the value for each placeholder: `_SCALAR`, `_LIMIT_ONE`, `_EMPTY`, or the number of
        elements of an array.
        """
        numbers = count(1)

        def number_placeholder(placeholder: re.Match[str]) -> str:
            if placeholder[0] == "%%":
                return "%"
            kind, before = next(kinds), placeholder["before"] or ""
            if kind == _SCALAR:
                return f"{before}${next(numbers)}"
            if kind == _LIMIT_ONE:
                return "LIMIT 1"
            if kind == _EMPTY:
                return f"{before}'{{}}'"
            return f"{before}ARRAY[{', '.join([f'${next(numbers)}' for _ in range(kind)])}]"

        return PLACEHOLDER.sub(number_placeholder, self)


class PreparedStatements:
    """The statements that one connection has prepared.

    If a message that prepares statements fails, it is unknown which of them are prepared: a later message prepares them
    again, under other names.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        # The texts of the statements that the next message prepares, until it has succeeded.
        self.unconfirmed: list[str] = []
        self._number = 0
        self._plans_until = 0.0

    def prepare_execution(self, statement: Prepared, parameters: Any) -> tuple[str, str, Any]:
        """Return what has to be sent before a statement, PREPARE or DISCARD PLANS, and its text and values to send."""
        form = statement.prepared_form(parameters)
        if form is None:
            return "", statement, parameters
        text, values = form
        preparation = ""
        if time.monotonic() >= self._plans_until:
            self._plans_until = time.monotonic() + PLANS_KEPT_SECONDS
            preparation = "DISCARD PLANS; "
        name = self._names.get(text)
        if name is None:
            self._number += 1
            name = self._names[text] = f"{statement.subject}_{self._number}"
            self.unconfirmed.append(text)
            preparation += f"PREPARE {name} AS {text}; "
        if not values:
            return preparation, f"EXECUTE {name}", None
        return preparation, f"EXECUTE {name} ({', '.join(['%s'] * len(values))})", values

    def confirm(self) -> None:
        """Record that the statements of the last message are prepared, since the message succeeded."""
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
    """True if a column that a prepared statement reads has another type now, such as after a migration."""
    return isinstance(error, psycopg2.errors.FeatureNotSupported) and "cached plan" in str(error)
