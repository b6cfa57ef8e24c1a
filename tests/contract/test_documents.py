"""The bundled documents are valid OpenAPI, and their source files are consistent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import connexion
import pytest
import yaml
from connexion.resolver import Resolver
from openapi_spec_validator import validate

import openapi
from domain.campaigns.compiled import compile_rules
from tests.contract import schemas
from tests.contract.documents import operations, resolve, texts

ROOT = Path(openapi.__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_document_is_valid(surface: str) -> None:
    validate(openapi.bundle(surface))


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_schemas_compile(surface: str) -> None:
    document = openapi.bundle(surface)
    for name in document["components"]["schemas"]:
        schemas.validator(document, {"$ref": f"#/components/schemas/{name}"})


@pytest.mark.slow
@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_connexion_loads_the_document(surface: str) -> None:
    resolved_ids = []

    class Recording(Resolver):
        def resolve_function_from_operation_id(self, operation_id: str) -> Any:
            resolved_ids.append(operation_id)
            return lambda **arguments: None

    application = connexion.FlaskApp(__name__)
    application.add_api(
        openapi.bundle(surface),
        resolver=Recording(),
        name=surface,
        strict_validation=True,
        auth_all_paths=False,
        security_map={},
    )
    with application.test_client() as client:
        assert client.get("/v2/nowhere").status_code == 404
    assert set(resolved_ids) == {operation.operation_id for operation in operations(openapi.bundle(surface))}


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_title_and_contact_of_the_document_suit_generators(surface: str) -> None:
    # Generators name packages by the title, and some need a contact.
    info = openapi.bundle(surface)["info"]
    assert len(info["title"].split()) <= 2
    assert info["contact"]["name"]


def test_a_token_request_may_contain_other_fields() -> None:
    # RFC 6749 requires it. A form that declares `additionalProperties` makes bad code in all generators.
    request = openapi.bundle("integration")["components"]["schemas"]["AccessTokenRequest"]
    assert "additionalProperties" not in request


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_a_document_is_json_and_has_only_internal_references(surface: str) -> None:
    document = openapi.bundle(surface)
    assert json.loads(json.dumps(document)) == document
    # `texts` yields the keys, too.
    references = {text for place, text in texts(document) if place[-1:] == ("$ref",) and text != "$ref"}
    assert references
    assert all(reference.startswith("#/components/") for reference in references)


def test_every_declared_component_is_used() -> None:
    # A bundled document has only the components that it refers to.
    used_components = {
        (section, name)
        for surface in openapi.SURFACES
        for section, entries in openapi.bundle(surface)["components"].items()
        for name in entries
    }
    assert openapi.declared_components().keys() - used_components == set()


@pytest.mark.parametrize("name", ["ActionRules", "CouponBookCondition"])
def test_a_condition_is_a_text_or_a_tree(name: str) -> None:
    document = openapi.bundle("administration")
    schema = {"$ref": f"#/components/schemas/{name}"}
    text, tree = {"expression": "member.active"}, {"node": {"kind": "constant", "type": "bool", "value": True}}
    # Also no condition at all.
    for condition in ({}, text, tree):
        assert schemas.faults(document, schema, condition) == []


@pytest.mark.parametrize("form", ["expression", "node"])
def test_the_examples_of_rules_compile(form: str) -> None:
    document = openapi.bundle("administration")
    rules = document["components"]["schemas"]["ActionRules"]["properties"]
    node, program = compile_rules({form: resolve(document, rules[form])["example"]})
    assert node is not None
    assert program is not None


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_every_path_of_the_files_is_in_the_index(surface: str) -> None:
    index = openapi.load(f"{surface}.yaml")["paths"]
    files_by_path = {}
    for file in sorted((ROOT / surface).glob("*.yaml")):
        for path in openapi.load(f"{surface}/{file.name}"):
            if not path.startswith("x-"):
                files_by_path[path] = f"{surface}/{file.name}#/{path.replace('/', '~1')}"
    assert {path: item["$ref"] for path, item in index.items()} == files_by_path


def _repeated_keys(text: str) -> Iterator[str]:
    """The keys that a mapping has twice, of which YAML would silently use the last one."""
    todo, visited = [yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))], set()
    while todo:
        node = todo.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            todo.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            counts = Counter(key.value for key, _ in node.value)
            yield from (f"{key}, line {node.start_mark.line}" for key, count in counts.items() if count > 1)
            todo.extend(value for _, value in node.value)


def test_no_file_has_a_repeated_key() -> None:
    files = sorted(ROOT.rglob("*.yaml"))
    assert len(files) > 20
    keys_by_file = {file.name: list(_repeated_keys(file.read_text("utf-8"))) for file in files}
    assert {name: keys for name, keys in keys_by_file.items() if keys} == {}


def test_a_repeated_key_is_found() -> None:
    assert list(_repeated_keys("a: 1\nb: {c: [{d: 1, d: 2}]}")) == ["d, line 1"]


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_a_description_that_refers_to_an_operation_of_the_other_interface_names_that_interface(surface: str) -> None:
    own_operations = {operation.operation_id: operation.operation for operation in operations(openapi.bundle(surface))}
    [other_surface] = set(openapi.SURFACES) - {surface}
    all_other_operations = {operation.operation_id for operation in operations(openapi.bundle(other_surface))}
    # Operations that both interfaces have are its own.
    other_operations = all_other_operations - own_operations.keys()
    descriptions = {name: operation.get("description", "") for name, operation in own_operations.items()}
    assert [
        (name, other)
        for name, description in descriptions.items()
        for other in other_operations
        if f"`{other}`" in description and f"{other_surface} interface" not in " ".join(description.split())
    ] == []
