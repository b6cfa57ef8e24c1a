"""The contract: two OpenAPI 3.0.3 documents, one for each surface, written by hand in many files.

Layout:

    integration.yaml, administration.yaml   info, servers, tags, security scheme, and the index: each path -> one `$ref`
    integration/<tag>.yaml                  path items of the tag, keyed by path (`x-` keys hold anchors)
    administration/<tag>.yaml               the same for the other surface
    components/<subject>.yaml               `schemas`, `parameters`, `responses`, `headers`... used by both surfaces

References are relative to the file they stand in (`../components/members.yaml#/schemas/Member`, or
`#/schemas/Member` inside the same component file). `bundle` joins the files into one document: path items are put in
place, and every component becomes `#/components/<section>/<name>`. Only what a surface reaches gets into its document.
A component's name means one thing in all files; two files that declare the same name are refused.

No component is declared `nullable` beside a `$ref`, and files are plain YAML (1.1 merge keys and anchors included).
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

import yaml

SURFACES = ("integration", "administration")

METHODS = ("get", "put", "post", "patch", "delete")
_COMPONENTS = "components"
_SECTIONS = ("schemas", "parameters", "responses", "headers", "requestBodies", "examples", "links", "securitySchemes")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DocumentError(Exception):
    """The files do not join into an OpenAPI document: a dangling, misplaced or ambiguous reference."""


@functools.cache
def bundle(surface: str) -> dict[str, Any]:
    """One surface's OpenAPI document as a dict with internal references only. Not to be changed by callers."""
    if surface not in SURFACES:
        raise DocumentError(f"unknown surface {surface!r}, expected one of {', '.join(SURFACES)}")
    return _Bundler(f"{surface}.yaml").document()


def operations_of(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Every operation of an OpenAPI document, in order: path, method, item of the path, and operation."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item, item[method]


def resolve(document: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    """The node of a bundled document, or the component that it refers to."""
    while "$ref" in node:
        target: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return dict(node)


@functools.cache
def load(name: str) -> dict[str, Any]:
    """Load the parsed content of one file of this package; `name` is its path inside it. Callers must not change it."""
    source = resources.files(__name__)
    for part in name.split("/"):
        source = source.joinpath(part)
    if not source.is_file():
        raise DocumentError(f"no such file: {name}")
    content = yaml.load(source.read_text(encoding="utf-8"), Loader=_LOADER)
    if not isinstance(content, dict):
        raise DocumentError(f"{name} is not a mapping")
    return content


def component_files() -> list[str]:
    """The component files, as names for `load`, sorted."""
    folder = resources.files(__name__).joinpath(_COMPONENTS)
    return sorted(f"{_COMPONENTS}/{entry.name}" for entry in folder.iterdir() if entry.name.endswith(".yaml"))


@functools.cache
def declared_components() -> dict[tuple[str, str], str]:
    """Every declared component, as (section, name) -> file. Raises DocumentError when two files declare one name."""
    declared: dict[tuple[str, str], str] = {}
    for file in component_files():
        for section, entries in load(file).items():
            if section.startswith("x-"):
                continue
            if section not in _SECTIONS:
                raise DocumentError(f"{file}: unknown section {section!r}")
            for name in entries:
                if (section, name) in declared:
                    raise DocumentError(f"{section} {name} is declared in {declared[section, name]} and in {file}")
                declared[section, name] = file
    return declared


class _Bundler:
    """Joins the files reached from one root file; remembers which components were reached."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._reached: dict[tuple[str, str], Any] = {}
        self._declared = declared_components()

    def document(self) -> dict[str, Any]:
        """The joined OpenAPI document, its components sorted by name."""
        root = load(self._root)
        document = {key: value for key, value in root.items() if key not in ("paths", "components")}
        document["paths"] = {path: self._path_item(item) for path, item in root["paths"].items()}
        self._convert(root.get("components", {}), self._root)
        components: dict[str, dict[str, Any]] = {}
        for section, name in sorted(self._reached, key=lambda key: (_SECTIONS.index(key[0]), key[1])):
            components.setdefault(section, {})[name] = self._reached[section, name]
        document["components"] = components
        return document

    def _path_item(self, item: dict[str, Any]) -> Any:
        """The item of a path, which the index only refers to."""
        file, pointer = self._target(item["$ref"], self._root)
        return self._convert(_value_at(file, pointer), file)

    def _convert(self, value: Any, file: str) -> Any:
        """`value`, which stands in `file`, with its references turned into internal ones."""
        if isinstance(value, list):
            return [self._convert(entry, file) for entry in value]
        if not isinstance(value, dict):
            return value
        if isinstance(value.get("$ref"), str):
            if len(value) > 1:
                raise DocumentError(f"{file}: fields beside $ref {value['$ref']} have no effect")
            return {"$ref": self._component(*self._target(value["$ref"], file))}
        return {key: self._convert(entry, file) for key, entry in value.items()}

    def _component(self, file: str, pointer: tuple[str, ...]) -> str:
        """Add a component and all that it reaches; return the internal reference to it.

        Raises DocumentError if the pointer does not lead to a declared component.
        """
        if len(pointer) != 2 or self._declared.get((pointer[0], pointer[1])) != file:
            raise DocumentError(f"{file}#/{'/'.join(pointer)} is not a declared component")
        section, name = pointer
        if (section, name) not in self._reached:
            self._reached[section, name] = None  # taken before its content is read, so that recursion ends
            self._reached[section, name] = self._convert(_value_at(file, pointer), file)
        return f"#/components/{section}/{name}"

    @staticmethod
    def _target(reference: str, file: str) -> tuple[str, tuple[str, ...]]:
        """The file to which a reference in `file` leads, and the parts of the pointer into it."""
        path, _, fragment = reference.partition("#")
        if not fragment.startswith("/"):
            raise DocumentError(f"{file}: {reference} names no part of a file")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(file), path)) if path else file
        parts = tuple(part.replace("~1", "/").replace("~0", "~") for part in fragment[1:].split("/"))
        return target, parts


def _value_at(file: str, pointer: tuple[str, ...]) -> Any:
    """The value in a file to which a pointer leads; raises DocumentError if there is none."""
    value: Any = load(file)
    for part in pointer:
        if not isinstance(value, dict) or part not in value:
            raise DocumentError(f"{file} has no #/{'/'.join(pointer)}")
        value = value[part]
    return value
