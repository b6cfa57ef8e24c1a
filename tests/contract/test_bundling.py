"""Bundling files into one document: what is accepted and refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import openapi

Files = dict[str, dict[str, Any]]
Bundle = Callable[[Files], dict[str, Any]]

ROOT = {
    "openapi": "3.0.3",
    "paths": {"/trees/{id}": {"$ref": "integration/trees.yaml#/~1trees~1{id}"}},
}


def _path_item(reference: str) -> dict[str, Any]:
    """A file whose path refers to a component."""
    return {"/trees/{id}": {"get": {"schema": {"$ref": reference}}}}


@pytest.fixture
def bundle(monkeypatch: pytest.MonkeyPatch) -> Bundle:
    """A function that bundles `ROOT` and further files, instead of those of the package."""

    def bundle_files(files: Files) -> dict[str, Any]:
        files = {"integration.yaml": ROOT, **files}

        def load(name: str) -> dict[str, Any]:
            if name not in files:
                raise openapi.DocumentError(f"no such file: {name}")
            return files[name]

        monkeypatch.setattr(openapi, "load", load)
        monkeypatch.setattr(
            openapi, "component_files", lambda: sorted(name for name in files if name.startswith("components/"))
        )
        monkeypatch.setattr(openapi, "declared_components", openapi.declared_components.__wrapped__)
        return openapi.bundle.__wrapped__("integration")

    return bundle_files


def test_paths_replace_their_references_and_components_are_gathered_across_files(bundle: Bundle) -> None:
    document = bundle(
        {
            "integration/trees.yaml": {
                "x-anchors": {"ignored": True},
                **_path_item("../components/trees.yaml#/schemas/Tree"),
            },
            "components/trees.yaml": {
                "schemas": {"Tree": {"items": {"$ref": "leaves.yaml#/schemas/Leaf"}}, "Unused": {"type": "string"}}
            },
            "components/leaves.yaml": {"schemas": {"Leaf": {"type": "string"}}},
        }
    )
    assert document == {
        "openapi": "3.0.3",
        "paths": {"/trees/{id}": {"get": {"schema": {"$ref": "#/components/schemas/Tree"}}}},
        "components": {
            "schemas": {"Leaf": {"type": "string"}, "Tree": {"items": {"$ref": "#/components/schemas/Leaf"}}}
        },
    }


def test_components_may_contain_themselves_across_files(bundle: Bundle) -> None:
    document = bundle(
        {
            "integration/trees.yaml": _path_item("../components/trees.yaml#/schemas/Tree"),
            "components/trees.yaml": {"schemas": {"Tree": {"items": {"$ref": "branches.yaml#/schemas/Branch"}}}},
            "components/branches.yaml": {
                "schemas": {
                    "Branch": {
                        "properties": {
                            "tree": {"$ref": "trees.yaml#/schemas/Tree"},
                            "fork": {"$ref": "#/schemas/Branch"},
                        }
                    }
                }
            },
        }
    )
    assert document["components"]["schemas"]["Branch"]["properties"] == {
        "tree": {"$ref": "#/components/schemas/Tree"},
        "fork": {"$ref": "#/components/schemas/Branch"},
    }


TREE: Files = {"components/trees.yaml": {"schemas": {"Tree": {"type": "object"}}}}
# By case: the file of the path, the files of components, and a part of the message.
REFUSED: dict[str, tuple[dict[str, Any], Files, str]] = {
    "no such component": (_path_item("../components/trees.yaml#/schemas/Bush"), TREE, "not a declared component"),
    "no such file": (_path_item("../components/bushes.yaml#/schemas/Bush"), TREE, "not a declared component"),
    "part of a component": (_path_item("../components/trees.yaml#/schemas/Tree/type"), TREE, "not a declared"),
    "whole file": (_path_item("../components/trees.yaml"), TREE, "names no part of a file"),
    "no such path": ({}, TREE, "has no #//trees/{id}"),
    "keys next to a reference": (
        {"/trees/{id}": {"schema": {"$ref": "../components/trees.yaml#/schemas/Tree", "nullable": True}}},
        TREE,
        "beside",
    ),
    "one name in two files": (
        _path_item("../components/trees.yaml#/schemas/Tree"),
        {**TREE, "components/woods.yaml": {"schemas": {"Tree": {"type": "string"}}}},
        "declared in components/trees.yaml and in components/woods.yaml",
    ),
    "unknown section": (
        _path_item("../components/trees.yaml#/schemas/Tree"),
        {"components/trees.yaml": {"schema": {"Tree": {}}}},
        "unknown section",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_documents_that_cannot_be_bundled_are_refused(bundle: Bundle, case: str) -> None:
    paths, components, message = REFUSED[case]
    with pytest.raises(openapi.DocumentError, match=message):
        bundle({"integration/trees.yaml": paths, **components})


def test_unknown_surface_is_refused() -> None:
    with pytest.raises(openapi.DocumentError, match="unknown surface"):
        openapi.bundle("marketing")


def test_unknown_file_is_refused() -> None:
    with pytest.raises(openapi.DocumentError, match="no such file"):
        openapi.load("components/nothing.yaml")
