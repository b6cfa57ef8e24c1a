"""The plain pages beside the operations, by Flask: health, metrics, documents and documentation, the key set."""

from __future__ import annotations

import functools
import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import flask
from swagger_ui_bundle import swagger_ui_path
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from domain.queue import QueueFigures
from domain.triggers import DeliveryFigures
from handlers import metrics
from handlers.http.documentation_pages import add_documentation, index_page, not_found_page
from handlers.http.exchange import Exchange
from handlers.http.page_answers import address_of, cached_page, json_page, prefers_html, root_of
from handlers.http.problems import MEDIA_TYPE, RETRY_AFTER_SECONDS, problem_body
from handlers.http.wsgi import EXCHANGE
from handlers.messages.json_text import encode

_ASSETS = {
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "favicon-32x32.png": "image/png",
}
_PUBLIC_PAGES = ("/health/", "/.well-known/", "/problems/", "/docs/page.css")
_DOCS_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="docs/swagger-ui.css"><link rel="icon" href="docs/favicon-32x32.png">
<link rel="stylesheet" href="docs/page.css">
</head>
<body>
<nav>{links}</nav>
<main id="swagger-ui"></main>
<script src="docs/swagger-ui-bundle.js"></script><script src="docs/page.js"></script>
</body>
</html>
"""
_PAGE_CSS = """body { margin: 0 } nav { padding: 12px 24px; font-family: sans-serif; background: #1b1b1b }
nav a, nav b { margin-right: 24px; color: #fff }
"""
_PAGE_JS = """window.ui = SwaggerUIBundle({
  url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null, docExpansion: "none",
  filter: true, persistAuthorization: true, presets: [SwaggerUIBundle.presets.apis]
});
"""
# Swagger UI writes style attributes and embeds its icons as data.
_DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def _nothing_to_check() -> Mapping[str, bool]:
    return {}


def _no_keys() -> Mapping[str, Any]:
    return {"keys": []}


def _no_queue() -> QueueFigures | None:
    return None


def _no_deliveries() -> DeliveryFigures | None:
    return None


@dataclass(frozen=True)
class Site:
    """The content of the pages beyond the documents.

    It has the readiness by check, the JWK set, the public base URL if it is configured, and the figures of the queue
    and of the deliveries, None if they are unknown. If the management has a port of its own, the pages for it are
    served there only.
    """

    ready: Callable[[], Mapping[str, bool]] = _nothing_to_check
    jwks: Callable[[], Mapping[str, Any]] = _no_keys
    base_url: str = ""
    management_port: int | None = None
    queue: Callable[[], QueueFigures | None] = _no_queue
    deliveries: Callable[[], DeliveryFigures | None] = _no_deliveries


def pages(documents: Mapping[str, Mapping[str, Any]], base_path: str, site: Site) -> flask.Flask:
    """The Flask application; all its pages are public."""
    app = flask.Flask(__name__, static_folder=None)
    # Errors of pages are answered like all others, outside of Flask.
    app.config["PROPAGATE_EXCEPTIONS"] = True
    app.register_error_handler(HTTPException, functools.partial(_refused, site))
    app.before_request(lambda: _hide_from_public(site))
    app.after_request(_seal)
    app.add_url_rule("/", "index", lambda: _index_page(documents, base_path, site))
    version = {"version": metadata.version("loyalty-server"), "documents": _versions(documents)}
    app.add_url_rule(f"{base_path}/version", "version", lambda: json_page(version))
    app.add_url_rule("/health/live", "live", lambda: json_page({"status": "live"}))
    app.add_url_rule("/health/ready", "ready", lambda: _ready(site))
    app.add_url_rule("/metrics", "metrics", lambda: _metrics(site))
    app.add_url_rule("/.well-known/jwks.json", "jwks", lambda: _key_set(site))
    add_documentation(app, documents, site.base_url)
    for surface, document in documents.items():
        _add_document(app, f"{base_path}/{surface}", surface, document, list(documents), site.base_url)
    return app


def _hide_from_public(site: Site) -> None:
    if site.management_port in (None, int(flask.request.environ["SERVER_PORT"])) or flask.request.url_rule is None:
        return
    if not flask.request.url_rule.rule.startswith(_PUBLIC_PAGES):
        flask.abort(404)


def _versions(documents: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {surface: document["info"]["version"] for surface, document in documents.items()}


def _index_page(documents: Mapping[str, Mapping[str, Any]], base_path: str, site: Site) -> flask.Response:
    index = _index(documents, base_path)
    if prefers_html():
        return index_page(site.base_url, index)
    response = json_page(index)
    response.headers["Vary"] = "Accept"
    return response


def _index(documents: Mapping[str, Mapping[str, Any]], base_path: str) -> dict[str, Any]:
    return {
        "documents": {
            surface: {"openapi": f"{base_path}/{surface}/openapi.json", "docs": f"{base_path}/{surface}/docs"}
            for surface in documents
        },
        "documentation": "/docs",
        "guide": "/llms.txt",
        "version": f"{base_path}/version",
        "health": {"live": "/health/live", "ready": "/health/ready"},
        "metrics": "/metrics",
        "keys": "/.well-known/jwks.json",
    }


def _ready(site: Site) -> flask.Response:
    checks = dict(site.ready())
    if all(checks.values()):
        return json_page({"status": "ready", "checks": checks})
    response = json_page({"status": "unavailable", "checks": checks}, 503)
    response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return response


def _metrics(site: Site) -> flask.Response:
    queue, deliveries = site.queue(), site.deliveries()
    waiting = b"" if queue is None else metrics.queue_exposition(queue)
    waiting += b"" if deliveries is None else metrics.delivery_exposition(deliveries)
    return flask.Response(metrics.exposition() + waiting, content_type=metrics.MEDIA_TYPE)


def _key_set(site: Site) -> flask.Response:
    response = json_page(site.jwks())
    response.headers["Cache-Control"] = "public, max-age=300"
    return response


def _add_document(
    app: flask.Flask, prefix: str, surface: str, document: Mapping[str, Any], surfaces: list[str], base_url: str
) -> None:
    text = encode(_with_address(document, base_url) if base_url else document)
    title = f"{document['info']['title']} {document['info']['version']}"
    links = " ".join(
        f"<b>{each}</b>" if each == surface else f'<a href="../{each}/docs">{each}</a>' for each in surfaces
    )
    page = _DOCS_PAGE.format(title=html.escape(title), links=links)
    made = {"page.css": (_PAGE_CSS, "text/css; charset=utf-8"), "page.js": (_PAGE_JS, "text/javascript; charset=utf-8")}

    def docs() -> flask.Response:
        response = flask.Response(page, mimetype="text/html")
        response.headers["Content-Security-Policy"] = _DOCS_POLICY
        return response

    def asset(name: str) -> flask.Response:
        if name in made:
            return cached_page(made[name][0].encode(), made[name][1])
        if name not in _ASSETS:
            flask.abort(404)
        return cached_page((swagger_ui_path / name).read_bytes(), _ASSETS[name])

    app.add_url_rule(f"{prefix}/openapi.json", f"{surface}_document", lambda: cached_page(text, "application/json", 0))
    app.add_url_rule(f"{prefix}/docs", f"{surface}_docs", docs)
    app.add_url_rule(f"{prefix}/docs/<name>", f"{surface}_asset", asset)


def _with_address(document: Mapping[str, Any], base_url: str) -> dict[str, Any]:
    """The document with the public address, also in its links to the documentation."""
    address = f"{address_of(base_url)}{root_of(base_url)}"

    def absolute(node: Any) -> Any:
        if isinstance(node, dict):
            return {name: absolute(child) for name, child in node.items()}
        if isinstance(node, list):
            return [absolute(child) for child in node]
        if isinstance(node, str):
            return f"{address}{node}" if node.startswith("/docs/") else node.replace("](/docs/", f"]({address}/docs/")
        return node

    return {**absolute(document), "servers": [{"url": base_url}]}


def _seal(response: flask.Response) -> flask.Response:
    exchange: Exchange = flask.request.environ[EXCHANGE]
    if flask.request.url_rule is not None:
        exchange.route = flask.request.url_rule.rule
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _refused(site: Site, error: HTTPException) -> flask.Response:
    """A problem, or for a browser that has lost its way a page."""
    if error.code == 404 and prefers_html():
        return not_found_page(site.base_url, "There is nothing under this path.")
    return _as_problem(error)


def _as_problem(error: HTTPException) -> flask.Response:
    exchange: Exchange = flask.request.environ[EXCHANGE]
    status = error.code or 500
    if status == 404:
        detail = "There is nothing under this path."
    elif status == 405:
        detail = f"{flask.request.method[:20]} is not allowed here."
    else:
        detail = "The request cannot be served."
    response = flask.Response(problem_body(status, detail, exchange.request_id), status, content_type=MEDIA_TYPE)
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        response.headers["Allow"] = ", ".join(sorted(error.valid_methods))
    return response
