"""The application with bugs in some operations, which a run over the documents must find.

gunicorn -k asgi 'tests.fuzz.broken:create()'
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from handlers.server import asgi

Message = dict[str, Any]
Scope = dict[str, Any]


@dataclass
class Exchange:
    """A request and its response, which a bug changes."""

    headers: dict[bytes, bytes]
    body: bytes
    status: int = 0
    response: bytes = b""
    response_headers: dict[bytes, bytes] | None = None


def _lose_a_required_field(exchange: Exchange) -> None:
    response = json.loads(exchange.response)
    if "wallets" in response:
        del response["wallets"]
    exchange.response = json.dumps(response).encode()


def _respond_with_another_success(exchange: Exchange) -> None:
    if exchange.status == 200:
        exchange.status = 202


def _respond_with_plain_text(exchange: Exchange) -> None:
    assert exchange.response_headers is not None
    if exchange.status == 200:
        exchange.response_headers[b"content-type"] = b"text/plain"


def _fail_at_the_longest_name(exchange: Exchange) -> None:
    if exchange.status == 201 and len(json.loads(exchange.body)["name"]) == 255:
        exchange.status = 500


def _refuse_even_amounts(exchange: Exchange) -> None:
    if exchange.status == 200 and json.loads(exchange.body)["amount"] % 2 == 0:
        exchange.status, exchange.response = 400, b"{}"


def _let_anybody_in(exchange: Exchange) -> None:
    exchange.headers[b"authorization"] = b"Bearer " + os.environ["FUZZ_TOKEN"].encode()


def _ignore_unknown_fields(exchange: Exchange) -> None:
    try:
        body = json.loads(exchange.body)
    except ValueError:
        return
    if isinstance(body, dict):
        known_fields = {name: value for name, value in body.items() if name in ("name", "description")}
        exchange.body = json.dumps(known_fields).encode()


def _lose_the_created_record(exchange: Exchange) -> None:
    if exchange.status == 200:
        exchange.status, exchange.response = 404, b"{}"


@dataclass(frozen=True)
class Bug:
    """A fault of one operation, in the request or in the response, and the check that has to find it."""

    method: str
    # The last parts of the path, `*` for any.
    path: str
    found_by: str
    before: Callable[[Exchange], None] | None = None
    after: Callable[[Exchange], None] | None = None


BUGS: Mapping[str, Bug] = {
    "listWallets": Bug("GET", "ledgers/*/wallets/*", "response_schema_conformance", after=_lose_a_required_field),
    "listEffects": Bug("GET", "effects", "status_code_conformance", after=_respond_with_another_success),
    "getEffect": Bug("GET", "effects/*", "content_type_conformance", after=_respond_with_plain_text),
    "createTier": Bug("POST", "tiers", "not_a_server_error", after=_fail_at_the_longest_name),
    "mintMemberPoints": Bug("POST", "mint", "positive_data_acceptance", after=_refuse_even_amounts),
    "listLedgers": Bug("GET", "ledgers", "ignored_auth", before=_let_anybody_in),
    "createLedger": Bug("POST", "ledgers", "negative_data_rejection", before=_ignore_unknown_fields),
    "getCustomEventType": Bug(
        "GET", "custom-event-types/*", "ensure_resource_availability", after=_lose_the_created_record
    ),
}


def create() -> Callable[..., Any]:
    """The application of `handlers.server.asgi` with all bugs."""
    app = asgi.create()

    async def serve_with_bugs(scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        bug = _bug_of(scope) if scope["type"] == "http" else None
        if bug is None:
            await app(scope, receive, send)
        else:
            await _serve(bug, app, scope, receive, send)

    return serve_with_bugs


def _bug_of(scope: Scope) -> Bug | None:
    parts = scope["path"].split("/")
    for bug in BUGS.values():
        bug_parts = bug.path.split("/")
        pairs = zip(bug_parts, parts[-len(bug_parts) :], strict=True) if len(bug_parts) <= len(parts) else [("", "*")]
        if scope["method"] == bug.method and all(part in ("*", actual_part) for part, actual_part in pairs):
            return bug
    return None


async def _serve(bug: Bug, app: Any, scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    exchange = Exchange(dict(scope["headers"]), await _read(receive))
    if bug.before is not None:
        bug.before(exchange)
        exchange.headers[b"content-length"] = str(len(exchange.body)).encode()
    messages: list[Message] = []

    async def replay() -> Message:
        return {"type": "http.request", "body": exchange.body, "more_body": False}

    async def keep(message: Message) -> None:
        messages.append(message)

    await app({**scope, "headers": list(exchange.headers.items())}, replay, keep)
    exchange.status, exchange.response_headers = messages[0]["status"], dict(messages[0]["headers"])
    exchange.response = b"".join(message.get("body", b"") for message in messages[1:])
    if bug.after is not None:
        bug.after(exchange)
    exchange.response_headers[b"content-length"] = str(len(exchange.response)).encode()
    await send({**messages[0], "status": exchange.status, "headers": list(exchange.response_headers.items())})
    await send({"type": "http.response.body", "body": exchange.response})


async def _read(receive: Callable[..., Any]) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
