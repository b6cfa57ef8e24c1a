"""The request files have the examples of all operations, and the server accepts them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import openapi
from openapi.request_files import http_file, postman
from tests.builders.api import Api
from tests.contract.documents import body_contents, operations

URL = "http://loyalty.test/v2"


def _bodies(surface: str) -> dict[str, Any]:
    """The first example of each operation that has a JSON body, by the operation's summary."""
    document = openapi.bundle(surface)
    bodies = {}
    for operation in operations(document):
        content = body_contents(document, operation).get("application/json")
        if content is not None:
            examples = [example["value"] for example in content.get("examples", {}).values()]
            bodies[operation.operation["summary"]] = examples[0] if examples else content["example"]
    return bodies


def _postman_items(document: Any) -> list[Any]:
    """The requests of the Postman collection, without its folders."""
    return [item for folder in postman(document, URL)["item"] for item in folder["item"]]


class FileRequest(NamedTuple):
    """A request of an HTTP file, with the values of its variables; `line` has the method and the URL."""

    name: str
    line: str
    headers: dict[str, str]
    body: str


def _in_http_file(surface: str) -> Iterator[FileRequest]:
    """Each request of the HTTP file of a surface."""
    variables, *parts = http_file(openapi.bundle(surface), URL).split("\n### ")
    values = dict(re.findall(r"^@(\w+) = (.*)$", variables, re.M))
    for part in parts:
        name, *lines = re.sub(r"{{(\w+)}}", lambda match: values[match[1]], part).split("\n")
        head, _, body = "\n".join(line for line in lines if not line.startswith("#")).partition("\n\n")
        line, *header_lines = head.strip().split("\n")
        headers = dict(header.split(": ", 1) for header in header_lines if ": " in header)
        yield FileRequest(name, line, headers, body.strip())


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_the_postman_collection_has_every_operation_with_its_example(surface: str) -> None:
    document = openapi.bundle(surface)
    items = _postman_items(document)
    assert sorted(item["name"] for item in items) == sorted(
        operation.operation["summary"] for operation in operations(document)
    )
    bodies = {item["name"]: item["request"].get("body", {}) for item in items}
    json_bodies = {
        name: json.loads(body["raw"])
        for name, body in bodies.items()
        if body.get("options") == {"raw": {"language": "json"}}
    }
    assert json_bodies == _bodies(surface)


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_the_postman_collection_declares_each_variable_of_a_path(surface: str) -> None:
    for item in _postman_items(openapi.bundle(surface)):
        url = item["request"]["url"]
        path_variables = {part.removeprefix(":") for part in url["path"] if part.startswith(":")}
        assert path_variables == {variable["key"] for variable in url["variable"]}


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_a_file_of_requests_has_every_operation_with_its_example(surface: str) -> None:
    document = openapi.bundle(surface)
    requests = list(_in_http_file(surface))
    assert [request.name for request in requests] == [
        operation.operation["summary"] for operation in operations(document)
    ]
    bodies = {request.name: json.loads(request.body) for request in requests if request.body.startswith("{")}
    assert bodies == _bodies(surface)


def test_the_server_accepts_requests_of_the_file(api: Api) -> None:
    organization = api.organization()
    statuses = {}
    for name, line, headers, body in _in_http_file("integration"):
        method, url = line.split(" ")
        if name in ("List badges", "Create a badge", "Create a member", "List members"):
            reply = organization.integration.request(
                method,
                url.removeprefix(URL),
                json.loads(body) if body else None,
                headers={**headers, "Authorization": f"Bearer {organization.token}"},
            )
            statuses[name] = reply.status
    assert statuses == {"List badges": 200, "Create a badge": 201, "Create a member": 201, "List members": 200}
