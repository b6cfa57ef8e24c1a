"""Invalid requests to every operation of the running server get a 4xx, and are neither logged nor change anything."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

import openapi
from tests.fuzz.conftest import RunningServer
from tests.fuzz.world import World

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
METHODS = ("get", "post", "put", "patch", "delete")

# Invalid bodies for every operation.
BODIES: Mapping[str, bytes] = {
    "nothing": b"",
    "white space": b" \n",
    "not JSON": b"{'name': 1}",
    "cut short": b'{"name": "a',
    "something after the end": b"{} {}",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "null": b"null",
    "an array": b"[]",
    "a text": b'"name"',
    "a number": b"7",
    "NaN": b"NaN",
    "a NaN inside": b'{"name": NaN}',
    "Infinity": b'{"name": -Infinity}',
    "1e999999999999": b'{"name": 1e999999999999}',
    "a number of 5000 digits": b'{"name": ' + b"9" * 5000 + b"}",
    "a fraction of 5000 digits": b'{"name": 0.' + b"9" * 5000 + b"}",
    "U+0000 in a value": b'{"name": "a\\u0000b"}',
    "U+0000 in a name": b'{"a\\u0000b": 1}',
    "a raw control character": b'{"name": "a\x01b"}',
    "a high surrogate alone": b'{"name": "\\ud800"}',
    "a low surrogate alone": b'{"name": "\\udc00 "}',
    "a raw surrogate": b'{"name": "\xed\xa0\x80"}',
    "invalid UTF-8": b'{"name": "\xff\xfe"}',
    "overlong UTF-8": b'{"name": "\xc0\x80"}',
    "UTF-16": '{"name": "a"}'.encode("utf-16"),
    "a name twice": b'{"name": "a", "name": "b"}',
    "100,000 arrays": b"[" * 100_000 + b"]" * 100_000,
    "100,000 arrays inside": b'{"name": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "40,000 objects": b'{"a":' * 40_000 + b"1" + b"}" * 40_000,
    "2 MB": b'{"name": "' + b"a" * 2_000_000 + b'"}',
}
FORMS: Mapping[str, bytes] = {
    "nothing": b"",
    "U+0000": b"grant_type=client_credentials&client_id=a%00&client_secret=b",
    "invalid UTF-8": b"grant_type=client_credentials&client_id=%ff&client_secret=b",
    "raw invalid UTF-8": b"grant_type=client_credentials&client_id=\xff&client_secret=b",
    "a surrogate": b"grant_type=client_credentials&client_id=%ed%a0%80&client_secret=b",
    "a broken escape": b"grant_type=client_credentials&client_id=%zz&client_secret=b",
    "a name twice": b"grant_type=client_credentials&client_id=a&client_id=b&client_secret=c",
    "JSON": b'{"grant_type": "client_credentials"}',
    "another grant": b"grant_type=password&client_id=a&client_secret=b",
    "a long secret": b"grant_type=client_credentials&client_id=a&client_secret=" + b"a" * 100_000,
    "100,000 parameters": b"grant_type=client_credentials" + b"&a=1" * 100_000,
    "2 MB": b"grant_type=client_credentials&client_id=" + b"a" * 2_000_000,
}
# Values that no field accepts: each replaces each field of a valid body.
VALUES: Mapping[str, str] = {
    "NaN": "NaN",
    "a huge exponent": "1e999999999999",
    "a tiny exponent": "1e-999999999999",
    "a huge integer": "9" * 400,
    "a hugely negative integer": "-" + "9" * 400,
    "U+0000": '"\\u0000"',
    "a lone surrogate": '"\\ud83d"',
    "a repeated name": '{"a": 1, "a": 1}',
    "deep nesting": "[" * 1000 + "]" * 1000,
}
MEDIA_TYPES = (
    None,
    "text/plain",
    "application/xml",
    "multipart/form-data; boundary=a",
    "application/json; charset=utf-16",
    "application/json-patch+json",
    "application",
    ";",
)


@dataclass(frozen=True)
class Operation:
    """An operation with a valid request: the example of its document, at ids that exist."""

    surface: str
    name: str
    method: str
    path: str
    media_type: str | None
    example: Any
    needs_body: bool

    def target(self, world: World) -> str:
        """The path with the ids of a world."""
        return "/v2" + self.path.format_map(world.ids)


def operations() -> Iterator[Operation]:
    """Every operation of both documents."""
    for surface in openapi.SURFACES:
        document = openapi.bundle(surface)
        for path, item in document["paths"].items():
            for method in METHODS:
                if method in item:
                    request_body = item[method].get("requestBody", {})
                    content, name = request_body.get("content", {}), item[method]["operationId"]
                    media_type = next(iter(content), None)
                    example = content[media_type].get("example") if media_type else None
                    needs_body = request_body.get("required", False)
                    yield Operation(surface, name, method.upper(), path, media_type, example, needs_body)


OPERATIONS = [pytest.param(operation, id=f"{operation.surface}-{operation.name}") for operation in operations()]
WRITES = [operation for operation in OPERATIONS if operation.values[0].media_type == JSON]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def world(running_server: RunningServer) -> World:
    """An organization with records of every kind."""
    new_world = running_server.new_world()
    # Else the worker would change the exports during a test.
    running_server.wait_for_exports(new_world)
    return new_world


class Caller:
    """Sends requests over one connection, and reconnects when the server ends it."""

    def __init__(self, port: int, world: World) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._world = world

    def __call__(self, method: str, target: str, body: bytes | None, media_type: str | None) -> tuple[int, bytes]:
        """The status and body of the response."""
        headers = self._world.credentials(target)
        if media_type is not None:
            headers["Content-Type"] = media_type
        # The server refuses what is too large before it has read it all; the response is there nevertheless.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._connection.request(method, target, body, headers)
        try:
            response = self._connection.getresponse()
            return response.status, response.read()
        finally:
            self._connection.close()


@dataclass
class State:
    """The state that no refused request may change: the digests of the tables, and the log, at the last reading."""

    read_tables: Callable[[], dict[str, str]]
    read_log: Callable[[], list[str]]

    def __post_init__(self) -> None:
        self._tables, self._log = self.read_tables(), self.read_log()

    def changes(self) -> tuple[list[str], list[str]]:
        """The names of the tables that have changed, and the lines that have been logged, since the last reading."""
        tables, log = self.read_tables(), self.read_log()
        changed_tables = [name for name, digest in tables.items() if digest != self._tables[name]]
        new_lines = log[len(self._log) :]
        self._tables, self._log = tables, log
        return changed_tables, new_lines


@pytest.fixture(scope="module")
def state(running_server: RunningServer, world: World) -> Iterator[State]:
    """The tables of the organization and the log of the server."""
    with running_server.tables(world.ids["organizationId"]) as read_tables:
        yield State(read_tables, running_server.errors)


@pytest.fixture
def call(running_server: RunningServer, world: World, state: State) -> Iterator[Caller]:
    """A caller; after the test, no table may have changed and no line may have been logged."""
    yield Caller(running_server.port, world)
    assert state.changes() == ([], [])


def is_refusal(response: tuple[int, bytes], *statuses: int) -> bool:
    """True if the response has one of these statuses, and is a problem, an error of OAuth, or a 400 without a body."""
    status, body = response
    if status == 400 and not body:
        return status in statuses
    return status in statuses and ("status" in json.loads(body) or "error" in json.loads(body))


def test_the_check_of_the_state_detects_a_change_by_a_request(
    running_server: RunningServer, world: World, state: State
) -> None:
    target = f"/v2/organizations/{world.ids['organizationId']}/ledgers"
    send = Caller(running_server.port, world)
    status, _ = send("POST", target, b'{"name": "Another"}', JSON)
    assert status == 201
    assert state.changes() == (["audit_log", "ledgers"], [])


@pytest.mark.parametrize("operation", WRITES)
def test_a_hostile_body_is_refused(call: Caller, world: World, operation: Operation) -> None:
    accepted_bodies = {}
    for name, body in BODIES.items():
        if not body and not operation.needs_body:
            continue
        response = call(operation.method, operation.target(world), body, JSON)
        if not is_refusal(response, 413 if name == "2 MB" else 400):
            accepted_bodies[name] = response
    assert not accepted_bodies


@pytest.mark.parametrize("operation", WRITES)
def test_a_hostile_value_of_a_field_is_refused(call: Caller, world: World, operation: Operation) -> None:
    accepted_bodies = {}
    for field in operation.example:
        for name, value in VALUES.items():
            # Python cannot write all of these values as JSON, so the text replaces a placeholder.
            body = json.dumps({**operation.example, field: "@@"}).replace('"@@"', value).encode()
            response = call(operation.method, operation.target(world), body, JSON)
            if not is_refusal(response, 400):
                accepted_bodies[field, name] = response
    assert not accepted_bodies


@pytest.mark.parametrize("operation", WRITES)
def test_an_unknown_field_is_refused(call: Caller, world: World, operation: Operation) -> None:
    for field in ("unknownMember", "", "__proto__", "organization_id", "😀"):
        body = json.dumps({**operation.example, field: 1}).encode()
        response = call(operation.method, operation.target(world), body, JSON)
        assert is_refusal(response, 400), (field, response)
        _, response_body = response
        if not response_body:
            # The partner wants no body with this error.
            continue
        pointers = [fault.get("pointer") for fault in json.loads(response_body)["errors"]]
        assert f"/{field}" in pointers


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_unknown_parameter_is_refused(call: Caller, world: World, operation: Operation) -> None:
    body = None if operation.media_type is None else json.dumps(operation.example).encode()
    for query in ("unknown=1", "%00=1", "%ff=1", "a%20b"):
        response = call(operation.method, f"{operation.target(world)}?{query}", body, operation.media_type)
        assert is_refusal(response, 400), (query, response)


@pytest.mark.parametrize("operation", WRITES)
def test_an_unsupported_media_type_is_refused(call: Caller, world: World, operation: Operation) -> None:
    body = json.dumps(operation.example).encode()
    for media_type in (*MEDIA_TYPES, FORM):
        response = call(operation.method, operation.target(world), body, media_type)
        assert is_refusal(response, 415), (media_type, response)


def test_a_hostile_form_is_refused(call: Caller) -> None:
    accepted_bodies = {}
    for name, body in FORMS.items():
        # A broken escape may be read as a client id, which is unknown.
        statuses = {"2 MB": (413,), "a broken escape": (400, 401)}.get(name, (400,))
        response = call("POST", "/v2/oauth/token", body, FORM)
        if not is_refusal(response, *statuses):
            accepted_bodies[name] = response
    assert not accepted_bodies
    for media_type in (*MEDIA_TYPES, JSON):
        assert is_refusal(call("POST", "/v2/oauth/token", b"{}", media_type), 415), media_type


@pytest.mark.parametrize("operation", WRITES)
@pytest.mark.usefixtures("call")
def test_ten_megabytes_are_refused_before_they_are_read(
    running_server: RunningServer, world: World, operation: Operation
) -> None:
    head = f"{operation.method} {operation.target(world)} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in world.credentials(operation.path).items())
    # The lengths of chunks are hexadecimal.
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    parts_with_length = [f"{head}Content-Length: 10000000\r\n\r\n".encode(), *[b" " * 0x10000] * 152]
    parts_in_chunks = [f"{head}Transfer-Encoding: chunked\r\n\r\n".encode(), *[chunk] * 160, b"0\r\n\r\n"]
    for parts in (parts_with_length, parts_in_chunks):
        assert _status_of(running_server.port, parts) == 413


def _status_of(port: int, parts: list[bytes]) -> int:
    """Send the parts of a request; return the status of the response, or 0 if there is none."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            for part in parts:
                connection.sendall(part)
        try:
            return int(connection.recv(4096).split(b" ")[1])
        except (ConnectionResetError, IndexError):
            return 0
