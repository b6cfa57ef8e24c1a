"""Watches that each statement of the product is about one organization, so that one shard can run it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from persistence import connections
from persistence.distribution import is_distributed
from persistence.tables import metadata

# Patterns of the statements that may name no organization, with the reason. Most of them query all shards, so no
# frequent call sends one.
ACROSS = {
    r"INSERT INTO organizations ": "a new organization has no id yet",
    r"SELECT .* FROM organizations( ORDER BY|$)": "the operator's commands and jobs go through all",
    r"SELECT .* FROM organizations WHERE organizations\.name = ": "the operator's commands find one by its name",
    r"SELECT count\(\*\).* FROM (queued_events$|trigger_deliveries d JOIN triggers t )": "the figures of /metrics",
    r"SELECT .* FROM (users JOIN )?organization_users ": "a user may belong to several organizations",
    r"SELECT organizations\.organization_id FROM organizations WHERE .*clock_target": "workers find advances under way",
    r"SELECT o\.organization_id FROM organizations o CROSS JOIN LATERAL": "workers find where there is something to do",
    r"SELECT organization_id, array_agg\(trigger_id\) FROM": "workers find the triggers whose deliveries are due",
    r"SELECT organization_id, min\(expiry_extension_id\) FROM": "workers find extensions to go on with",
    r"SELECT organization_id, \(array_agg\(import_id ": "workers find imports to go on with",
    r"SELECT organization_id, \(array_agg\(export_id ": "workers find exports to write",
    r"SELECT organization_id, array_agg\(export_id\) FROM": "a job finds the exports that were kept long enough",
}

_TABLES = "|".join(sorted(table.name for table in metadata.sorted_tables if is_distributed(table)))
_USED = re.compile(rf"\b(?:FROM|JOIN|UPDATE|INTO|USING)\s+(?:ONLY\s+)?(?:{_TABLES})\b", re.IGNORECASE)
_CONFINED = re.compile(r"organization_id\"?\s*=\s*(?:CAST\[)?(?:%|\d|:|'|\$)", re.IGNORECASE)
_ADDED = re.compile(rf"INSERT\s+INTO\s+(?:{_TABLES})\b[^\[\]]*\[[^\[\]]*\borganization_id\b", re.IGNORECASE)
_TEXT = re.compile(r"(?:'[^']*')+")
_PARENTHESES = re.compile(r"\(([^()]*)\)")
_QUERY = re.compile(r"\s*(?:SELECT|WITH|INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
_BEFORE_DERIVED_TABLE = re.compile(r"\b(?:FROM|JOIN)\s*$", re.IGNORECASE)
_ANY_TABLE = "organizations"
_SET_OPERATION = re.compile(r"\b(?:UNION|INTERSECT|EXCEPT)\b", re.IGNORECASE)
_TESTS = str(Path(__file__).parents[1])


def is_across(statement: str) -> bool:
    """True if a query of a statement, without its string literals, uses tables of organizations and names none.

    The queries of a statement are itself, its sub-selects, and the operands of UNION and the like. A correlated
    sub-select names an organization, too: if it only had that of a row of the outer query, Citus would send the
    statement to all shards.
    """
    while match := _PARENTHESES.search(statement):
        before, inner, after = statement[: match.start()], match[1], statement[match.end() :]
        # Square brackets replace the parentheses of expressions.
        replacement = f"[{inner}]"
        if _QUERY.match(inner):
            # A name in place of the query: without it, the alias that follows would look like the name of a table.
            replacement = "subquery"
            if _is_query_across(inner):
                # A derived table gets the conditions of the query that it is in, so this is what has to name one.
                if not _BEFORE_DERIVED_TABLE.search(before):
                    return True
                replacement = _ANY_TABLE
        statement = f"{before}{replacement}{after}"
    return _is_query_across(statement)


def _is_query_across(query: str) -> bool:
    """True if an operand of a query, without its sub-selects, uses tables of organizations and names none."""
    return any(
        _USED.search(operand) and not _CONFINED.search(operand)
        # New rows have their organization.
        for operand in _SET_OPERATION.split(_ADDED.sub("", query))
    )


@contextmanager
def watched() -> Iterator[set[str]]:
    """Collect the statements across organizations that the product sends meanwhile, except those of `ACROSS`."""
    statements: set[str] = set()
    hashes: set[int] = set()
    across = re.compile("|".join(ACROSS))
    transmit = connections._transmit

    def watching(cursor: Any, message: str | bytes, parameters: Any = None) -> None:
        # A message with parameters is a template. Most are sent again and again.
        if parameters is None or hash(message) not in hashes:
            check(message)
        if parameters is not None:
            hashes.add(hash(message))
        transmit(cursor, message, parameters)

    def check(message: str | bytes) -> None:
        text = message.decode(errors="replace") if isinstance(message, bytes) else message
        for part in _TEXT.sub("''", text).split(";"):
            statement = " ".join(part.split())
            if hash(statement) in hashes:
                continue
            hashes.add(hash(statement))
            if is_across(statement) and not across.match(statement) and not _is_of_a_test():
                statements.add(statement)

    with mock.patch.object(connections, "_transmit", watching):
        yield statements


def _is_of_a_test() -> bool:
    """True if a test sent the statement: going up the stack, code of a test comes before code of `handlers`."""
    frame = sys._getframe(3)
    while frame is not None:
        path = frame.f_code.co_filename
        if "/handlers/" in path:
            return False
        if path.startswith(_TESTS):
            return True
        frame = frame.f_back
    return True
