"""Handlers are short, and only the dispatcher prepares their calls."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from handlers.operation import Operation, all_operations

ROOT = Path(__file__).parent.parent
MAX_LINES = 12


def lines_of(operation: Operation) -> int:
    """The number of lines of a handler below its docstring."""
    [function] = ast.parse(textwrap.dedent(inspect.getsource(operation.function))).body
    assert isinstance(function, ast.FunctionDef)
    assert ast.get_docstring(function), operation.operation_id
    end_of_docstring = function.body[0].end_lineno or 0
    return (function.end_lineno or 0) - end_of_docstring


def test_handlers_have_at_most_twelve_lines():
    line_counts = {name: lines_of(operation) for name, operation in all_operations().items()}
    assert {name: count for name, count in line_counts.items() if count > MAX_LINES} == {}


def calls_in(folder: str, name: str) -> Iterator[tuple[str, str]]:
    """The module and the function of each call of `name`, with or without a prefix such as `module.`."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        text = path.read_text()
        for function in ast.walk(ast.parse(text)) if name in text else ():
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Call) and name in (vars(node.func).get("attr"), vars(node.func).get("id")):
                        yield path.relative_to(ROOT).as_posix(), function.name


@pytest.mark.parametrize(
    ("name", "callers"),
    [
        # The primary decides who may read a replica.
        ("permitted_callers", {"_admit", "ask_primary", "_read_replica"}),
        ("limit_lock_wait", {"_run_batch"}),
    ],
)
def test_only_the_dispatcher_checks_permissions_and_limits_lock_waits(name, callers):
    assert set(calls_in("handlers", name)) == {("handlers/http/dispatch.py", caller) for caller in callers}


def test_every_batch_handler_takes_calls_and_requests():
    batch_operations = {
        name: operation.batch for name, operation in all_operations().items() if operation.batch is not None
    }
    assert len(batch_operations) >= 14
    # `bind` raises TypeError if a handler cannot be called with two lists.
    for name, handler in batch_operations.items():
        assert inspect.signature(handler.run).bind([], []), name
