"""The documents and their pages for people: Swagger UI from its package, with a field for the token."""

import functools
from collections.abc import Mapping
from importlib import resources
from typing import Any

import flask

from handlers.http.page_answers import address_of, cached_page, html_page, root_of, site_file
from handlers.messages.json_text import encode
from openapi import asyncapi

_ASSETS = {
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "favicon-32x32.png": "image/png",
}
_FILES = ("reference.css", "reference.js")
# Swagger UI writes style attributes and embeds its icons as data.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def add_reference(
    app: flask.Flask, prefix: str, surface: str, document: Mapping[str, Any], surfaces: list[str], base_url: str
) -> None:
    """Add the document of a surface, its page, and the files of that; `base_url` is the public one, if configured."""
    text = encode(_with_address(document, base_url) if base_url else document)
    title, root = f"{document['info']['title']} {document['info']['version']}", root_of(base_url)
    page = {"root": root, "title": title, "surface": surface, "surfaces": surfaces}
    app.add_url_rule(f"{prefix}/openapi.json", f"{surface}_document", lambda: cached_page(text, "application/json", 0))
    app.add_url_rule(f"{prefix}/docs", f"{surface}_docs", lambda: html_page("reference.html", page, policy=_POLICY))
    app.add_url_rule(f"{prefix}/docs/", f"{surface}_docs_folder", lambda: flask.redirect(f"{root}{prefix}/docs", 301))
    app.add_url_rule(f"{prefix}/docs/<name>", f"{surface}_asset", _asset)


def add_message_reference(app: flask.Flask, base_url: str) -> None:
    """Add the document of the messages to receivers of webhooks."""
    document = asyncapi.document()
    text = encode(_with_absolute_links(document, address_of(base_url)) if base_url else document)
    app.add_url_rule("/asyncapi.json", "asyncapi", lambda: cached_page(text, "application/json", 0))


def _asset(name: str) -> flask.Response:
    if name in _FILES:
        return site_file(name)
    if name not in _ASSETS:
        flask.abort(404)
    return cached_page(_read(name), _ASSETS[name])


@functools.cache
def _read(name: str) -> bytes:
    """A file of Swagger UI."""
    return resources.files("flask_swagger_ui").joinpath("dist", name).read_bytes()


def _with_address(document: Mapping[str, Any], base_url: str) -> dict[str, Any]:
    """The document with the public address, also in its links to the documentation."""
    return {**_with_absolute_links(document, address_of(base_url)), "servers": [{"url": base_url}]}


def _with_absolute_links(node: Any, address: str) -> Any:
    if isinstance(node, dict):
        return {name: _with_absolute_links(child, address) for name, child in node.items()}
    if isinstance(node, list):
        return [_with_absolute_links(child, address) for child in node]
    if isinstance(node, str):
        return f"{address}{node}" if node.startswith("/docs/") else node.replace("](/docs/", f"]({address}/docs/")
    return node
