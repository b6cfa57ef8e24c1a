"""The OpenAPI documents and their pages: the server renders the list of operations, a script the rest."""

from collections.abc import Mapping
from typing import Any

import flask
from markupsafe import Markup

from handlers.http import documentation, reference
from handlers.http.page_responses import address_of, cached_page, html_page, root_of
from handlers.messages.json_text import encode
from openapi import asyncapi

# The paths of this server to which the OpenAPI documents link.
_LINKED_PATHS = ("/docs/", "/v2/oauth/token")


def add_reference(
    app: flask.Flask, prefix: str, surface: str, document: Mapping[str, Any], surfaces: list[str], base_url: str
) -> None:
    """Add the OpenAPI document of a surface and its page; `base_url` is the public URL, empty if none is configured."""
    text = encode(_with_address(document, base_url) if base_url else document)
    root = root_of(base_url)
    page = {"root": root, "surface": surface, "surfaces": surfaces, **_contents(document, root)}
    app.add_url_rule(f"{prefix}/openapi.json", f"{surface}_document", lambda: cached_page(text, "application/json"))
    app.add_url_rule(f"{prefix}/docs", f"{surface}_docs", lambda: html_page("reference.html", page))
    app.add_url_rule(f"{prefix}/docs/", f"{surface}_docs_folder", lambda: flask.redirect(f"{root}{prefix}/docs", 301))


def _contents(document: Mapping[str, Any], root: str) -> dict[str, Any]:
    """The values that the page shows without its script."""
    linked_document = _with_absolute_links(document, root)
    info = linked_document["info"]
    about, _, common = info.get("description", "").partition("\n\n")
    return {
        "title": f"{info['title']} {info['version']}",
        "about": Markup(documentation.to_html(about)),
        "common": Markup(documentation.to_html(common)),
        "groups": reference.groups(linked_document),
    }


def add_message_reference(app: flask.Flask, base_url: str) -> None:
    """Add the AsyncAPI document of the messages that receivers of webhooks get."""
    document = asyncapi.document()
    text = encode(_with_absolute_links(document, address_of(base_url)) if base_url else document)
    app.add_url_rule("/asyncapi.json", "asyncapi", lambda: cached_page(text, "application/json"))


def _with_address(document: Mapping[str, Any], base_url: str) -> dict[str, Any]:
    """The OpenAPI document with the public address, also in its links to pages and in the URL of tokens."""
    return {**_with_absolute_links(document, address_of(base_url)), "servers": [{"url": base_url}]}


def _with_absolute_links(node: Any, address: str) -> Any:
    """A copy of a part of an OpenAPI document in which links to this server begin with the address."""
    if isinstance(node, dict):
        return {name: _with_absolute_links(child, address) for name, child in node.items()}
    if isinstance(node, list):
        return [_with_absolute_links(child, address) for child in node]
    if isinstance(node, str):
        return f"{address}{node}" if node.startswith(_LINKED_PATHS) else node.replace("](/docs/", f"]({address}/docs/")
    return node
