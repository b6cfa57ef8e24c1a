"""Modules and functions are short enough to be read at once."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("domain", "handlers", "openapi", "persistence")
MAX_LINES_OF_MODULE, MAX_LINES_OF_FUNCTION = 400, 60


def modules_of(folder: str) -> list[Path]:
    """The files of all modules in a folder."""
    return sorted((ROOT / folder).rglob("*.py"))


def functions_in(text: str) -> Iterator[tuple[str, int]]:
    """(name, number of lines without the docstring) of each function of a module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first_statement = node.body[0]
            has_docstring = ast.get_docstring(node) is not None
            lines_of_docstring = (first_statement.end_lineno or 0) - first_statement.lineno + 1 if has_docstring else 0
            yield node.name, (node.end_lineno or 0) - node.lineno + 1 - lines_of_docstring


@pytest.mark.parametrize("folder", FOLDERS)
def test_modules_have_at_most_400_lines(folder):
    lines = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in modules_of(folder)}
    assert {name: count for name, count in lines.items() if count > MAX_LINES_OF_MODULE} == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_functions_have_at_most_60_lines(folder):
    lines = {
        (path.relative_to(ROOT).as_posix(), name): count
        for path in modules_of(folder)
        for name, count in functions_in(path.read_text())
    }
    assert {name: count for name, count in lines.items() if count > MAX_LINES_OF_FUNCTION} == {}


def test_the_docstring_of_a_function_is_not_counted():
    text = 'def find(name):\n    """Find it.\n\n    By its name.\n    """\n    return name\n'
    # The lines of `def` and `return`.
    assert list(functions_in(text)) == [("find", 2)]
