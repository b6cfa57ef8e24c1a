"""The plain pages besides the operations, served by Flask: health, metrics, API documents, documentation, key set."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import flask
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from domain.queue import QueueFigures
from domain.triggers import DeliveryFigures
from handlers import metrics
from handlers.http.documentation_pages import add_documentation, index_page, not_found_page
from handlers.http.exchange import Exchange
from handlers.http.page_responses import SITE, json_page, prefers_html, root_of
from handlers.http.playground_pages import add_playground
from handlers.http.problems import MEDIA_TYPE, RETRY_AFTER_SECONDS, problem_body
from handlers.http.reference_pages import add_message_reference, add_reference
from handlers.http.wsgi import EXCHANGE
from persistence.transactions import time_limit

# The time that a page has for the database. If the database does not respond, monitoring has to see it at once.
_DATABASE_SECONDS = 2.0
_PUBLIC_PAGES = ("/health/", "/.well-known/", "/problems/", "/docs/page.css", "/docs/page.js")


def _nothing_to_check() -> Mapping[str, bool]:
    return {}


def _no_keys() -> Mapping[str, Any]:
    return {"keys": []}


def no_figures() -> None:
    """Return None: the default for figures that a site does not have."""


@dataclass(frozen=True)
class Site:
    """The content of the pages beyond the documents.

    `readiness` has a result for each check. `jwks` is the key set, `base_url` the public URL, empty if none is
    configured. The figures of the queue and of deliveries are None while the database is unavailable. `replica_lag`,
    the seconds that the read replica is behind, is None while the replica is unavailable, and without a replica. With a
    `management_port`, pages for the management are only served on this port, without one on every port.
    """

    readiness: Callable[[], Mapping[str, bool]] = _nothing_to_check
    jwks: Callable[[], Mapping[str, Any]] = _no_keys
    base_url: str = ""
    management_port: int | None = None
    queue: Callable[[], QueueFigures | None] = no_figures
    deliveries: Callable[[], DeliveryFigures | None] = no_figures
    replica_lag: Callable[[], float | None] = no_figures


def create_pages_app(documents: Mapping[str, Mapping[str, Any]], base_path: str, site: Site) -> flask.Flask:
    """Create the Flask application of the pages, none of which needs a token.

    With a management port, other ports only serve the `_PUBLIC_PAGES`.
    """
    app = flask.Flask(__name__, static_folder=None, template_folder=SITE)
    app.jinja_env.trim_blocks = True
    # Flask would redirect a path with two slashes to any host that the request names.
    app.url_map.merge_slashes = False
    # Errors of pages are handled outside of Flask, like all other errors.
    app.config["PROPAGATE_EXCEPTIONS"] = True
    app.register_error_handler(HTTPException, functools.partial(_error_response, site))
    app.before_request(lambda: _refuse_management_pages(site))
    app.after_request(_finish_response)
    app.add_url_rule("/", "index", lambda: _index_page(documents, base_path, site))
    version = {"version": metadata.version("loyalty-server"), "documents": _versions(documents)}
    app.add_url_rule(f"{base_path}/version", "version", lambda: json_page(version))
    app.add_url_rule("/health/live", "live", lambda: json_page({"status": "live"}))
    within_time_limit = time_limit(_DATABASE_SECONDS)
    app.add_url_rule("/health/ready", "ready", within_time_limit(lambda: _readiness_page(site)))
    app.add_url_rule("/metrics", "metrics", within_time_limit(lambda: _metrics(site)))
    app.add_url_rule("/.well-known/jwks.json", "jwks", within_time_limit(lambda: _key_set(site)))
    add_documentation(app, documents, base_path, site.base_url)
    add_playground(app, site.base_url)
    for surface, document in documents.items():
        add_reference(app, f"{base_path}/{surface}", surface, document, list(documents), site.base_url)
    add_message_reference(app, site.base_url)
    return app


def _refuse_management_pages(site: Site) -> None:
    """Refuse pages that are not among the `_PUBLIC_PAGES`, on other ports than the management port, if there is one."""
    if site.management_port in (None, int(flask.request.environ["SERVER_PORT"])) or flask.request.url_rule is None:
        return
    if not flask.request.url_rule.rule.startswith(_PUBLIC_PAGES):
        flask.abort(404)


def _versions(documents: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {surface: document["info"]["version"] for surface, document in documents.items()}


def _index_page(documents: Mapping[str, Mapping[str, Any]], base_path: str, site: Site) -> flask.Response:
    """The page under `/`: HTML for browsers, JSON for other clients."""
    index = _index(documents, base_path, root_of(site.base_url))
    if prefers_html():
        return index_page(site.base_url, index)
    response = json_page(index)
    response.headers["Vary"] = "Accept"
    return response


def _index(documents: Mapping[str, Mapping[str, Any]], base_path: str, root: str) -> dict[str, Any]:
    """The paths of all pages, each below the path `root` of the server."""
    api = f"{root}{base_path}"
    return {
        "documents": {
            surface: {"openapi": f"{api}/{surface}/openapi.json", "docs": f"{api}/{surface}/docs"}
            for surface in documents
        },
        "webhooks": f"{root}/asyncapi.json",
        "documentation": f"{root}/docs",
        "playground": f"{root}/playground",
        "guide": f"{root}/llms.txt",
        "version": f"{api}/version",
        "health": {"live": f"{root}/health/live", "ready": f"{root}/health/ready"},
        "metrics": f"{root}/metrics",
        "keys": f"{root}/.well-known/jwks.json",
    }


def _readiness_page(site: Site) -> flask.Response:
    """The page with the result of each check; a 503 if one has failed."""
    checks = dict(site.readiness())
    if all(checks.values()):
        return json_page({"status": "ready", "checks": checks})
    response = json_page({"status": "unavailable", "checks": checks}, 503)
    response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return response


def _metrics(site: Site) -> flask.Response:
    """The page with the metrics of this process, and with the figures that need the database, unless they are None."""
    queue, deliveries, lag = site.queue(), site.deliveries(), site.replica_lag()
    exposition = metrics.exposition()
    exposition += b"" if queue is None else metrics.queue_exposition(queue)
    exposition += b"" if deliveries is None else metrics.delivery_exposition(deliveries)
    exposition += b"" if lag is None else metrics.replica_exposition(lag)
    return flask.Response(exposition, content_type=metrics.MEDIA_TYPE)


def _key_set(site: Site) -> flask.Response:
    response = json_page(site.jwks())
    response.headers["Cache-Control"] = "public, max-age=300"
    return response


def _finish_response(response: flask.Response) -> flask.Response:
    """Add the header that all pages have; report the route to the log."""
    exchange: Exchange = flask.request.environ[EXCHANGE]
    if flask.request.url_rule is not None:
        exchange.route = flask.request.url_rule.rule
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _error_response(site: Site, error: HTTPException) -> flask.Response:
    """A problem; for a browser that requested an unknown path, a page."""
    if error.code == 404 and prefers_html():
        return not_found_page(site.base_url, "There is nothing under this path.")
    return _as_problem(error)


def _as_problem(error: HTTPException) -> flask.Response:
    """The response to an error of a page, as a problem."""
    exchange: Exchange = flask.request.environ[EXCHANGE]
    status = error.code or 500
    if status == 404:
        detail = "There is nothing under this path."
    elif status == 405:
        detail = f"{flask.request.method[:20]} is not allowed here."
    elif status < 500:
        detail = f"The page refuses this request: {error.name}."
    else:
        detail = "The request cannot be served."
    response = flask.Response(problem_body(status, detail, exchange.request_id), status, content_type=MEDIA_TYPE)
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        response.headers["Allow"] = ", ".join(sorted(error.valid_methods))
    return response
