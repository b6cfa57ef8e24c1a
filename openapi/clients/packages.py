"""Writes the folders of both packages, and the archive of the one for TypeScript."""

from __future__ import annotations

import json
import tarfile
from importlib import resources
from pathlib import Path

import openapi
from openapi.clients import python, typescript
from openapi.clients.operations import operations, schemas

_SETUP = """\
[build-system]
requires = ["setuptools>=80"]
build-backend = "setuptools.build_meta"

[project]
name = "loyalty-client"
version = "{version}"
description = "A client of the loyalty server."
readme = "README.md"
license = "Apache-2.0"
requires-python = ">=3.11"
dependencies = ["httpx>=0.28"]

[tool.setuptools]
packages = ["loyalty_client"]

[tool.setuptools.package-data]
loyalty_client = ["py.typed"]
"""
_INIT = '''"""A client of the loyalty server. Generated from the OpenAPI documents."""

from loyalty_client.administration import AdministrationClient as AdministrationClient
from loyalty_client.integration import IntegrationClient as IntegrationClient
from loyalty_client.runtime import Options as Options
from loyalty_client.runtime import Problem as Problem
from loyalty_client.webhooks import InvalidWebhook as InvalidWebhook
from loyalty_client.webhooks import verify_webhook as verify_webhook
'''


def write_packages(folder: Path, archives: Path, version: str) -> None:
    """Write both packages, and the archive of the one for TypeScript."""
    write_python(folder / "python", version)
    write_typescript(folder / "typescript", version)
    archives.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archives / f"loyalty-client-{version}.tgz", "w:gz") as archive:
        archive.add(folder / "typescript", "package")


def write_python(folder: Path, version: str) -> None:
    """Write the package for Python, ready to be built."""
    package = folder / "loyalty_client"
    package.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(_SETUP.format(version=version), encoding="utf-8")
    (folder / "README.md").write_text(_read("python_readme.md"), encoding="utf-8")
    (package / "py.typed").touch()
    (package / "__init__.py").write_text(_INIT, encoding="utf-8")
    for name in ("runtime.py", "webhooks.py"):
        (package / name).write_text(_read(f"python_{name}"), encoding="utf-8")
    (package / "types.py").write_text(python.write_types(schemas()), encoding="utf-8")
    for surface in openapi.SURFACES:
        text = python.write_client(surface, operations(openapi.bundle(surface)), surface == "administration")
        (package / f"{surface}.py").write_text(text, encoding="utf-8")


def write_typescript(folder: Path, version: str) -> None:
    """Write the package for TypeScript: JavaScript and its declarations, which need no compiler."""
    folder.mkdir(parents=True, exist_ok=True)
    package = {
        "name": "loyalty-client",
        "version": version,
        "description": "A client of the loyalty server.",
        "license": "Apache-2.0",
        "type": "module",
        "exports": {".": {"types": "./index.d.ts", "default": "./index.js"}},
        "types": "./index.d.ts",
        "sideEffects": False,
        "engines": {"node": ">=20"},
    }
    (folder / "package.json").write_text(json.dumps(package, indent=2) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(_read("typescript_readme.md"), encoding="utf-8")
    for name in ("runtime.js", "runtime.d.ts", "webhooks.js", "webhooks.d.ts"):
        (folder / name).write_text(_read(f"typescript_{name}"), encoding="utf-8")
    (folder / "types.d.ts").write_text(typescript.write_types(schemas()), encoding="utf-8")
    for surface in openapi.SURFACES:
        methods = operations(openapi.bundle(surface))
        has_organization = surface == "administration"
        (folder / f"{surface}.js").write_text(
            typescript.write_code(surface, methods, has_organization), encoding="utf-8"
        )
        declarations = typescript.write_declarations(surface, methods, has_organization)
        (folder / f"{surface}.d.ts").write_text(declarations, encoding="utf-8")
    for name in ("index.js", "index.d.ts"):
        (folder / name).write_text(typescript.write_index(has_types=name.endswith(".d.ts")), encoding="utf-8")


def _read(name: str) -> str:
    return resources.files(__package__ or __name__).joinpath(name).read_text(encoding="utf-8")
