"""Small documents, a recording dispatcher and a client in the same process, for the tests of the HTTP layer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from domain.problems import Unauthorized
from handlers.call import Caller, PartnerKey, Request, Response
from handlers.http.app import build_app
from handlers.http.pages import Site
from handlers.settings import Settings

SETTINGS = Settings(threads=2, max_body_bytes=20_000, validate_responses=True)
KEYS = {f"{name}-key": Caller(name, 1, frozenset(), partner=PartnerKey(1, name, name)) for name in ("alpha", "beta")}
CALLERS = {
    "admin": Caller("admin", 1, frozenset(), is_admin=True),
    "reader": Caller("reader", 1, frozenset({"books:read"})),
    "writer": Caller("writer", 1, frozenset({"books:write"})),
    "nobody": Caller("nobody", 1, frozenset()),
    "member": Caller("member", 1, frozenset(), loyalty_member_id="ana"),
}


def authenticate(token: str) -> Caller:
    """The caller of `CALLERS` whose name is the token; any other token is refused."""
    try:
        return CALLERS[token]
    except KeyError:
        raise Unauthorized("The access token is not valid.") from None


def authenticate_key(key: str) -> Caller:
    """The partner of `KEYS` that has the key; any other key is refused."""
    try:
        return KEYS[key]
    except KeyError:
        raise Unauthorized("The API key is unknown or revoked.") from None


@dataclass
class Recorder:
    """A dispatcher that records the requests and responds to each with the result of `answer`."""

    answer: Callable[[Request], Response] = lambda request: Response(200, {})
    requests: list[Request] = field(default_factory=list)

    def __call__(self, requests: Sequence[Request]) -> list[Response | Exception]:
        self.requests += requests
        return [self.answer(request) for request in requests]

    def batch_key(self, surface: str, operation_id: str, caller: Caller | None) -> None:
        """None, so that each request is run individually."""

    @property
    def last(self) -> Request:
        return self.requests[-1]


@dataclass(frozen=True)
class Reply:
    """A response as the application sent it."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    def faults(self) -> dict[str, str]:
        """The details of the faults of a 400, by the parameter or JSON pointer that is wrong."""
        assert self.status == 400, (self.status, self.content)
        return {error.get("parameter") or error.get("pointer", "?"): error["detail"] for error in self.json["errors"]}


class Client:
    """Calls an ASGI application with exactly the bytes that a test gives."""

    def __init__(self, app: Any, token: str | None = "admin") -> None:
        self.app = app
        self.token = token
        self.body_reads = 0

    def __call__(
        self,
        method: str,
        target: str | bytes,
        *,
        json_body: Any = None,
        body: bytes | Iterable[bytes] = b"",
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        token: str | None = "",
    ) -> Reply:
        """Send one request; `target` is the raw path and query.

        The token is that of the client unless `token` is given; None sends none. A header "(none)" is left out.
        """
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        if json_body is not None:
            body = json.dumps(json_body).encode()
        token = self.token if token == "" else token
        header_names = {name.lower() for name, _ in pairs}
        if token is not None and "authorization" not in header_names:
            pairs.append(("Authorization", f"Bearer {token}"))
        chunks = [body] if isinstance(body, bytes) else list(body)
        if any(chunks) and "content-type" not in header_names:
            pairs.append(("Content-Type", "application/json"))
        if "host" not in header_names:
            pairs.append(("Host", "loyalty.test"))
        pairs = [(name, value) for name, value in pairs if value != "(none)"]
        raw = target.encode() if isinstance(target, str) else target
        return asyncio.run(self._call(method, raw, pairs, chunks))

    async def _call(self, method: str, target: bytes, pairs: list[tuple[str, str]], chunks: list[bytes]) -> Reply:
        path, _, query = target.partition(b"?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path.decode("utf-8", "replace"),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs],
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1),
        }
        messages: list[Any] = []
        self.body_reads = 0
        pending = list(chunks)

        async def receive() -> Any:
            self.body_reads += 1
            part = pending.pop(0) if pending else b""
            return {"type": "http.request", "body": part, "more_body": bool(pending)}

        async def send(message: Any) -> None:
            messages.append(message)

        await self.app(scope, receive, send)
        headers = {name.decode(): value.decode("latin-1") for name, value in messages[0]["headers"]}
        return Reply(messages[0]["status"], headers, b"".join(message.get("body", b"") for message in messages[1:]))


PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {"status": {"type": "integer"}, "detail": {"type": "string"}},
}
PROBLEMS = {
    status: {"description": "refused", "content": {"application/problem+json": {"schema": PROBLEM}}}
    for status in ("400", "401", "403", "404", "408", "409", "413", "415", "429", "503")
}


def operation(operation_id: str, *scopes: str, public: bool = False, **more: Any) -> dict[str, Any]:
    """An operation that responds with 200 and any JSON, unless `responses` are given."""
    success = {"200": {"description": "done", "content": {"application/json": {"schema": {}}}}}
    return {
        "operationId": operation_id,
        "security": [] if public else [{"oauth2": list(scopes)}, {"bearerAuth": []}],
        **more,
        "responses": {**PROBLEMS, **more.get("responses", success)},
    }


def parameter(name: str, schema: Mapping[str, Any], place: str = "query", **more: Any) -> dict[str, Any]:
    """A declared parameter; one in the path is required."""
    return {"name": name, "in": place, "schema": schema, **({"required": True} if place == "path" else {}), **more}


def body(schema: Mapping[str, Any], media_type: str = "application/json", *, required: bool = True) -> dict[str, Any]:
    """A declared request body."""
    return {"required": required, "content": {media_type: {"schema": schema}}}


def document(paths: Mapping[str, Any], schemas: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An OpenAPI 3.0.3 document of these paths."""
    scopes = {name: name for name in ("books:read", "books:write", "admin", "member")}
    flow = {"clientCredentials": {"tokenUrl": "/v2/oauth/token", "scopes": scopes}}
    return {
        "openapi": "3.0.3",
        "info": {"title": "Books", "version": "2.0.0"},
        "servers": [{"url": "/v2"}],
        "paths": dict(paths),
        "components": {
            "schemas": dict(schemas or {}),
            "securitySchemes": {
                "bearerAuth": {"type": "http", "scheme": "bearer"},
                "oauth2": {"type": "oauth2", "flows": flow},
                **{
                    name: {"type": "apiKey", "in": "header", "name": "X-Api-Key", "x-partner": name}
                    for name in ("alpha", "beta")
                },
            },
        },
    }


def serve(
    paths: Mapping[str, Any],
    schemas: Mapping[str, Any] | None = None,
    *,
    other: Mapping[str, Any] | None = None,
    dispatch: Callable[[Request], Response] | None = None,
    settings: Any = SETTINGS,
    site: Site | None = None,
) -> tuple[Client, Recorder]:
    """A client of an application that serves `paths` as integration and `other` as administration."""
    recorder = dispatch if isinstance(dispatch, Recorder) else Recorder(*([dispatch] if dispatch else []))
    documents = {"integration": document(paths, schemas), "administration": document(other or {}, schemas)}
    return Client(build_app(documents, recorder, authenticate, settings, site, authenticate_key)), recorder
