"""The official test data of CEL, fetched from the npm package `@bufbuild/cel-spec` and kept in a cache folder.

The package is Apache-2.0 and is not part of this repository. It is fetched once into the cache folder of the tests. Its
modules hold object literals; they are read as data and never executed.
"""

import hashlib
import json
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from tests import npm

PACKAGE = "@bufbuild/cel-spec@0.6.1"
ARCHIVE = "bufbuild-cel-spec-0.6.1.tgz"
DIGEST = "37e4b203f5ca5192db73a6095d129fb5e58a262a89309ba32e1840e7a80270e1"
MODULES = ("conformance", "parsing", "checking", "comprehension")

_TOKEN = re.compile(
    r"""(?P<double>"(?:[^"\\]|\\.)*")|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<key>[A-Za-z_$][\w$]*)(?=\s*:)|,(?=\s*[}\]])"""
)


@dataclass(frozen=True)
class Case:
    """One test: its section and name, and the members of the original."""

    section: str
    name: str
    data: dict[str, Any]

    @property
    def original(self) -> dict[str, Any]:
        return self.data["original"]

    @property
    def text(self) -> str:
        return self.original["expr"]


@cache
def cases(module: str) -> tuple[Case, ...]:
    """All tests of one module of the package."""
    with tarfile.open(_archive()) as archive:
        member = archive.extractfile(f"package/dist/esm/testdata/{module}.js")
        assert member is not None
        source = member.read().decode()
    return tuple(_walk(_literal(source), ()))


def _walk(suite: dict[str, Any], path: tuple[str, ...]) -> Iterator[Case]:
    for test in suite.get("tests", []):
        name = test["original"].get("name") or test["original"]["expr"]
        yield Case(path[0] if path else suite["name"], "/".join((*path[1:], name)), test)
    for inner in suite.get("suites", []):
        yield from _walk(inner, (*path, inner["name"]))


def _literal(source: str) -> dict[str, Any]:
    """The object literal a module exports, as data: keys are quoted and trailing commas dropped to make it JSON."""
    body = source[source.index("export const tests =") + len("export const tests =") :].strip().rstrip(";")
    return json.loads(_TOKEN.sub(_as_json, body), parse_float=Decimal)


def _as_json(token: re.Match[str]) -> str:
    if token["double"] is not None:
        return token["double"]
    if token["single"] is not None:
        return '"' + token["single"].replace("\\'", "'").replace('"', '\\"') + '"'
    return f'"{token["key"]}"' if token["key"] else ""


def _archive() -> Path:
    path = npm.cache_folder() / ARCHIVE
    if not path.exists():
        npm.run_npm("pack", PACKAGE, "--pack-destination", str(path.parent))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != DIGEST:
        raise RuntimeError(f"{path} is not {PACKAGE} as it was published: sha256 {digest}. Delete it and try again.")
    return path
