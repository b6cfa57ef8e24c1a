"""Layers import only lower layers, and packages that belong to one layer are imported only there."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("domain", "persistence", "handlers")
# The layers that a layer may import.
BELOW = {"domain": set(), "persistence": {"domain"}, "handlers": {"domain", "persistence", "openapi"}, "openapi": set()}
# The only packages that the domain imports: for parsing expressions and for their regular expressions.
OF_EXPRESSIONS = {"lark", "re2"}
# Within handlers: the higher parts, which a part must not import.
ABOVE = {
    "handlers/messages": ("handlers.schemas", "handlers.services", "handlers.http", "handlers.server"),
    "handlers/services": ("handlers.schemas", "handlers.http", "handlers.server"),
    "handlers/schemas": ("handlers.http", "handlers.server"),
}
HTTP_FRAMEWORKS = {"connexion", "flask", "starlette", "a2wsgi", "werkzeug"}


def modules(folder: str) -> list[Path]:
    """The files of all modules in a folder."""
    return sorted((ROOT / folder).rglob("*.py"))


@cache
def imports_of(path: Path) -> frozenset[str]:
    """The names of the modules that a module imports."""
    return frozenset(_read_imports(path))


def _read_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def package_of(name: str) -> str:
    """The first part of the name of a module."""
    return name.split(".")[0]


def test_the_modules_are_found():
    for layer in LAYERS:
        assert len(modules(layer)) > 10


@pytest.mark.parametrize("layer", BELOW)
def test_a_layer_imports_only_lower_layers(layer):
    allowed_layers = BELOW[layer] | {layer}
    upwards = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules(layer)
        for name in imports_of(path)
        if package_of(name) in {*BELOW, "tests", "bench"} - allowed_layers
    }
    assert upwards == set()


@pytest.mark.parametrize("part", ABOVE)
def test_a_part_of_the_handlers_imports_no_higher_part(part):
    # The other modules directly in handlers/ have the handlers of operations, and only handlers/http imports them.
    top_modules = {f"handlers.{path.stem}" for path in (ROOT / "handlers").glob("*.py")}
    shared_modules = {
        f"handlers.{name}"
        for name in ("call", "operation", "settings", "setting_values", "audit_trail", "metrics", "tracing")
    }
    upwards = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules(part)
        for name in imports_of(path)
        if name.startswith(ABOVE[part]) or name in top_modules - shared_modules
    }
    assert upwards == set()


def test_the_domain_imports_only_the_standard_library_and_packages_of_expressions():
    foreign_imports = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules("domain")
        for name in imports_of(path)
        if package_of(name) not in sys.stdlib_module_names | {"domain"}
        and not (package_of(name) in OF_EXPRESSIONS and path.is_relative_to(ROOT / "domain" / "expressions"))
    }
    assert foreign_imports == set()


@pytest.mark.parametrize("module", ["random", "secrets", "os", "time", "uuid"])
def test_the_domain_imports_no_module_of_chance_time_or_environment(module):
    assert [path for path in modules("domain") if module in imports_of(path)] == []


def test_only_the_http_layer_imports_http_frameworks():
    imports_elsewhere = {
        f"{path.relative_to(ROOT)}: {name}"
        for layer in LAYERS
        for path in modules(layer)
        if not path.is_relative_to(ROOT / "handlers" / "http")
        for name in imports_of(path)
        if package_of(name) in HTTP_FRAMEWORKS
    }
    assert imports_elsewhere == set()
