"""The cost of the HTTP layer: CPU per request in one process, compared with bare Flask and unmodified connexion.

    python -m bench.http_layer [REQUESTS]

No sockets and no database: the ASGI (or WSGI) application is called directly, eight requests at a time, in alternating
rounds. Prints the median round as a table for `docs/performance.md`.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import statistics
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import connexion
import flask
from a2wsgi import WSGIMiddleware
from connexion.options import SwaggerUIOptions

from handlers.call import Caller, Request, Response
from handlers.http.app import build_app
from handlers.http.exchange import open_exchange
from handlers.http.logging import configure
from handlers.http.threads import Threads
from handlers.http.wsgi import OneHopWsgi
from handlers.settings import Settings

CONCURRENCY = 8
ROUNDS = 5
OTHER_PATHS = 90
CALLER = Caller("bench", 1, frozenset({"x:read", "x:write"}))
FIELDS = (
    {f"text{i}": {"type": "string", "maxLength": 40, "minLength": 1} for i in range(10)}
    | {f"number{i}": {"type": "number", "minimum": 0} for i in range(6)}
    | {f"count{i}": {"type": "integer", "minimum": 0, "maximum": 1000} for i in range(4)}
)
BODY = json.dumps({name: "some words" if name[0] == "t" else 3.25 if name[0] == "n" else 7 for name in FIELDS}).encode()
PARAMETERS = [
    {"name": "page", "in": "query", "schema": {"type": "integer", "minimum": 0, "default": 0}},
    {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}},
]
KEY = {"name": "key", "in": "path", "required": True, "schema": {"type": "string", "maxLength": 40}}
Case = Callable[[], Awaitable[Any]]


def document(secured: bool) -> dict[str, Any]:
    """An OpenAPI document whose measured paths come after this many other paths (`OTHER_PATHS`)."""

    def operation(name: str, **more: Any) -> dict[str, Any]:
        answer = {"200": {"description": "x", "content": {"application/json": {"schema": {"type": "object"}}}}}
        security = {"security": [{"oauth2": ["x:read"]}, {"bearerAuth": []}]} if secured else {}
        return {"operationId": name, "responses": answer, "x-openapi-router-controller": __name__, **security, **more}

    body = {"type": "object", "additionalProperties": False, "required": list(FIELDS), "properties": FIELDS}
    content = {"application/json": {"schema": body}}
    flow = {"clientCredentials": {"tokenUrl": "/t", "scopes": {"x:read": "read"}}}
    schemes = {"oauth2": {"type": "oauth2", "flows": flow}, "bearerAuth": {"type": "http", "scheme": "bearer"}}
    paths: dict[str, Any] = {
        f"/other{i}/{{key}}": {"get": operation(f"other_{i}", parameters=[KEY])} for i in range(OTHER_PATHS)
    }
    paths["/things/{key}"] = {"get": operation("get_thing", parameters=[KEY, *PARAMETERS])}
    paths["/things"] = {"post": operation("create_thing", requestBody={"required": True, "content": content})}
    return {
        "openapi": "3.0.3",
        "info": {"title": "bench", "version": "1"},
        "paths": paths,
        "components": {"securitySchemes": schemes} if secured else {},
    }


def get_thing(key: str, page: int, limit: int) -> dict[str, Any]:
    """The read handler of the unmodified connexion application."""
    return {"key": key, "page": page, "limit": limit}


def create_thing(body: dict[str, Any]) -> dict[str, Any]:
    """The write handler of the unmodified connexion application."""
    return body


def __getattr__(name: str) -> Any:
    if name.startswith("other_"):
        return get_thing
    raise AttributeError(name)


class _Dispatcher:
    """Responds to each request with its own content."""

    def __call__(self, requests: Sequence[Request]) -> list[Response | Exception]:
        return [Response(200, request.body or {"key": request.path["key"], **request.query}) for request in requests]

    def batch_key(self, surface: str, operation_id: str, caller: Caller | None) -> None:
        return None


class _Authenticator:
    def __call__(self, token: str) -> Caller:
        return CALLER

    def cached_caller(self, token: str) -> Caller:
        return CALLER


def _asgi(app: Any, method: str, path: str, query: bytes = b"", body: bytes = b"") -> Case:
    """A call of an ASGI application with this request; it fails unless the response is 200."""
    headers = [(b"host", b"localhost"), (b"authorization", b"Bearer x"), (b"user-agent", b"bench"), (b"accept", b"*/*")]
    if body:
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]

    async def call() -> None:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "root_path": "",
            "headers": headers,
            "server": ("localhost", 80),
            "client": ("127.0.0.1", 1),
        }

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                assert message["status"] == 200, message

        await app(scope, receive, send)

    return call


def _wsgi(app: Any, method: str, path: str, query: str = "", body: bytes = b"") -> Case:
    """A call of a WSGI application with this request, without a server."""

    async def call() -> None:
        environ = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "SCRIPT_NAME": "",
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr,
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
        }
        b"".join(app(environ, lambda status, headers, exc_info=None: None))

    return call


def _bare_flask() -> flask.Flask:
    app = flask.Flask("bare")
    app.add_url_rule("/things/<key>", "get", lambda key: flask.jsonify(key=key, **flask.request.args))
    app.add_url_rule("/things", "post", lambda: flask.jsonify(flask.request.get_json()), methods=["POST"])
    return app


def _stock() -> Any:
    app = connexion.FlaskApp("stock", swagger_ui_options=SwaggerUIOptions(swagger_ui=False))
    app.add_api(document(secured=False), base_path="/v2", strict_validation=True)
    return app


def cases() -> dict[str, Case]:
    """The measured cases, by their names in the table."""
    settings = Settings(threads=4)

    async def bridged(scope: Any, receive: Any, send: Any) -> None:
        open_exchange(scope, 0.0)
        await bridge(scope, receive, send)

    ours = build_app({"bench": document(secured=True)}, _Dispatcher(), _Authenticator(), settings)
    bare, stock = _bare_flask(), _stock()
    bridge = OneHopWsgi(bare.wsgi_app, Threads(2, "page"))
    return {
        "bare Flask, no validation, GET": _wsgi(bare, "GET", "/things/a", "page=1&limit=10"),
        "bare Flask, no validation, POST": _wsgi(bare, "POST", "/things", body=BODY),
        "bare Flask behind this server's bridge, GET": _asgi(bridged, "GET", "/things/a", b"page=1&limit=10"),
        "bare Flask behind a2wsgi, GET": _asgi(
            WSGIMiddleware(bare.wsgi_app, 2), "GET", "/things/a", b"page=1&limit=10"
        ),
        "connexion as it comes, GET": _asgi(stock, "GET", "/v2/things/a", b"page=1&limit=10"),
        "connexion as it comes, POST": _asgi(stock, "POST", "/v2/things", body=BODY),
        "this server, GET": _asgi(ours, "GET", "/v2/things/a", b"page=1&limit=10"),
        "this server, POST": _asgi(ours, "POST", "/v2/things", body=BODY),
        "this server, a page by Flask": _asgi(ours, "GET", "/health/live"),
    }


async def _round(case: Case, requests: int) -> tuple[float, float]:
    """The microseconds of processor time of a request, and the requests a second, of concurrent calls of a case."""

    async def call_repeatedly() -> None:
        for _ in range(requests // CONCURRENCY):
            await case()

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(call_repeatedly() for _ in range(CONCURRENCY)))
    count = requests // CONCURRENCY * CONCURRENCY
    return (time.process_time() - cpu) / count * 1e6, count / (time.perf_counter() - wall)


async def _measure(requests: int, measured: dict[str, Case]) -> dict[str, tuple[float, float]]:
    """The medians of the figures of `_round`, by name of the case; the rounds of the cases alternate."""
    for case in measured.values():
        await _round(case, 200)
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in measured}
    for _ in range(ROUNDS):
        for name, case in measured.items():
            results[name].append(await _round(case, requests))
    return {
        name: (statistics.median(cpu for cpu, _ in rounds), statistics.median(rate for _, rate in rounds))
        for name, rounds in results.items()
    }


def main() -> None:
    """Measure with and without the log line of each request, and print the table."""
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    warnings.simplefilter("ignore")
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 the lines are to be written, not to be seen
    measured = cases()
    configure("error", "json")
    results = asyncio.run(_measure(requests, measured))
    logging.getLogger("loyalty").setLevel(logging.INFO)
    logged = {f"{name}, logged": case for name, case in measured.items() if name.startswith("this server, ")}
    results |= asyncio.run(_measure(requests, dict(list(logged.items())[:2])))
    base = {"GET": results["bare Flask, no validation, GET"][0], "POST": results["bare Flask, no validation, POST"][0]}
    print("| what | CPU a request | of bare Flask | requests/s |\n|---|---|---|---|")
    for name, (cpu, rate) in results.items():
        method = "POST" if "POST" in name else "GET"
        print(f"| {name} | {cpu:.0f} us | {cpu / base[method]:.2f} | {rate:.0f} |")


if __name__ == "__main__":
    main()
