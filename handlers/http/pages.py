"""The plain pages beside the operations, by Flask: health, metrics, the documents, their docs, the key set."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import flask
from swagger_ui_bundle import swagger_ui_path
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from domain.queue import QueueFigures
from domain.triggers import DeliveryFigures
from handlers import metrics
from handlers.http.exchange import Exchange
from handlers.http.problems import MEDIA_TYPE, RETRY_AFTER_SECONDS, problem_body
from handlers.http.wsgi import EXCHANGE
from handlers.messages.json_text import encode

_ASSETS = {
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "favicon-32x32.png": "image/png",
}
_DAY = 86_400
_PUBLIC_PAGES = ("/health/", "/.well-known/", "/problems/")
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
_PROBLEM_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{type}</title>
</head>
<body><h1><code>{type}</code></h1><p>Status {status}</p><p>{meaning}</p></body>
</html>
"""
_PROBLEM_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# The rows of the table in the schema Problem, which is the list of all types.
_PROBLEM_ROW = re.compile(r"^\| `/problems/([a-z0-9-]+)` \| (\d{3}) \| (.+) \|$", re.M)
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
    app.register_error_handler(HTTPException, _as_problem)
    app.before_request(lambda: _hide_from_public(site))
    app.after_request(_seal)
    app.add_url_rule("/", "index", lambda: _json(_index(documents, base_path)))
    app.add_url_rule("/health/live", "live", lambda: _json({"status": "live"}))
    app.add_url_rule("/health/ready", "ready", lambda: _ready(site))
    app.add_url_rule("/metrics", "metrics", lambda: _metrics(site))
    app.add_url_rule("/.well-known/jwks.json", "jwks", lambda: _key_set(site))
    problems = _problem_pages(documents)
    app.add_url_rule("/problems/<slug>", "problem", lambda slug: _problem(problems, slug))
    for surface, document in documents.items():
        _add_document(app, f"{base_path}/{surface}", surface, document, list(documents), site.base_url)
    return app


def _hide_from_public(site: Site) -> None:
    if site.management_port in (None, int(flask.request.environ["SERVER_PORT"])) or flask.request.url_rule is None:
        return
    if not flask.request.url_rule.rule.startswith(_PUBLIC_PAGES):
        flask.abort(404)


def _index(documents: Mapping[str, Mapping[str, Any]], base_path: str) -> dict[str, Any]:
    return {
        "documents": {
            surface: {"openapi": f"{base_path}/{surface}/openapi.json", "docs": f"{base_path}/{surface}/docs"}
            for surface in documents
        },
        "health": {"live": "/health/live", "ready": "/health/ready"},
        "metrics": "/metrics",
        "keys": "/.well-known/jwks.json",
    }


def _json(body: Any, status: int = 200) -> flask.Response:
    response = flask.Response(encode(body), status, mimetype="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response


def _ready(site: Site) -> flask.Response:
    checks = dict(site.ready())
    if all(checks.values()):
        return _json({"status": "ready", "checks": checks})
    response = _json({"status": "unavailable", "checks": checks}, 503)
    response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return response


def _metrics(site: Site) -> flask.Response:
    queue, deliveries = site.queue(), site.deliveries()
    waiting = b"" if queue is None else metrics.queue_exposition(queue)
    waiting += b"" if deliveries is None else metrics.delivery_exposition(deliveries)
    return flask.Response(metrics.exposition() + waiting, content_type=metrics.MEDIA_TYPE)


def _key_set(site: Site) -> flask.Response:
    response = _json(site.jwks())
    response.headers["Cache-Control"] = "public, max-age=300"
    return response


def _problem_pages(documents: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The meaning of each problem type in words, by slug.

    These are the pages behind the `type` of problems (RFC 9457, 3.1.1).
    """
    schemas = (document.get("components", {}).get("schemas", {}) for document in documents.values())
    tables = (found["Problem"].get("description", "") for found in schemas if "Problem" in found)
    rows = (row for table in tables for row in _PROBLEM_ROW.findall(table))
    return {
        slug: _PROBLEM_PAGE.format(type=f"/problems/{slug}", status=status, meaning=_code(html.escape(meaning)))
        for slug, status, meaning in rows
    }


def _code(text: str) -> str:
    """Markdown's code spans as HTML."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", text)


def _problem(problems: Mapping[str, str], slug: str) -> flask.Response:
    if slug not in problems:
        flask.abort(404)
    response = flask.Response(problems[slug], mimetype="text/html")
    response.headers["Content-Security-Policy"] = _PROBLEM_POLICY
    return response


def _add_document(
    app: flask.Flask, prefix: str, surface: str, document: Mapping[str, Any], surfaces: list[str], base_url: str
) -> None:
    served = {**document, "servers": [{"url": base_url}]} if base_url else document
    text = encode(served)
    title = f"{served['info']['title']} {served['info']['version']}"
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
            return _cached(made[name][0].encode(), made[name][1])
        if name not in _ASSETS:
            flask.abort(404)
        return _cached((swagger_ui_path / name).read_bytes(), _ASSETS[name])

    app.add_url_rule(f"{prefix}/openapi.json", f"{surface}_document", lambda: _cached(text, "application/json", 0))
    app.add_url_rule(f"{prefix}/docs", f"{surface}_docs", docs)
    app.add_url_rule(f"{prefix}/docs/<name>", f"{surface}_asset", asset)


def _cached(body: bytes, media_type: str, max_age: int = _DAY) -> flask.Response:
    """An answer with an entity tag, which becomes a 304 for a client that has it already."""
    response = flask.Response(body, content_type=media_type)
    response.set_etag(hashlib.sha256(body).hexdigest()[:32])
    response.headers["Cache-Control"] = f"public, max-age={max_age}" if max_age else "public, no-cache"
    response.make_conditional(flask.request)
    return response


def _seal(response: flask.Response) -> flask.Response:
    exchange: Exchange = flask.request.environ[EXCHANGE]
    if flask.request.url_rule is not None:
        exchange.route = flask.request.url_rule.rule
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


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
