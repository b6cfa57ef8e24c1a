"""The routes of the documentation: pages as HTML and as Markdown, search, llms.txt, and the pages of problem types."""

import functools
from collections.abc import Mapping
from functools import partial
from typing import Any

import flask
from markupsafe import Markup
from werkzeug import Response

from handlers.http import documentation, reference
from handlers.http.page_responses import address_of, cached_page, html_page, root_of, site_file, text_page
from handlers.messages.json_text import encode

_FILES = (
    "page.css",
    "page.js",
    "search.js",
    "minisearch.js",
    "reference.css",
    "reference.js",
    "reference-request.js",
    "reference-schema.js",
    "reference-text.js",
)


def add_documentation(
    app: flask.Flask, documents: Mapping[str, Mapping[str, Any]], base_path: str, base_url: str
) -> None:
    """Add the routes; `base_url` is the public URL, empty if none is configured."""
    root = root_of(base_url)
    index = functools.cache(partial(_search_index, documents, base_path))
    for name in _FILES:
        app.add_url_rule(f"/docs/{name}", name, partial(site_file, name))
    app.add_url_rule("/docs", "documentation", lambda: _page(documentation.INDEX, root))
    app.add_url_rule("/docs/", "documentation_index", lambda: flask.redirect(f"{root}/docs", 301))
    app.add_url_rule("/problems", "problems", lambda: flask.redirect(f"{root}/docs/problems", 301))
    app.add_url_rule("/docs/search", "search", lambda: _search(root))
    app.add_url_rule("/docs/search.json", "search_index", lambda: cached_page(index(), "application/json"))
    app.add_url_rule("/docs/images/<name>", "image", _image)
    app.add_url_rule("/docs/<path:name>.md", "markdown", lambda name: _markdown(name, base_url))
    app.add_url_rule("/docs/<path:name>", "documentation_page", lambda name: _page(name, root))
    app.add_url_rule("/llms.txt", "guide", lambda: _guide(base_url))
    app.add_url_rule("/problems/<slug>", "problem", lambda slug: _problem(slug, root))


def not_found_page(base_url: str, detail: str) -> flask.Response:
    """A 404 for people, with links to other pages."""
    return html_page("start.html", {"root": root_of(base_url), "title": "Not found", "text": detail}, 404)


def index_page(base_url: str, index: Mapping[str, Any]) -> flask.Response:
    """The page under `/` for people."""
    text = "An HTTP JSON API that runs loyalty programs: events in, points out."
    values = {"root": root_of(base_url), "title": "Loyalty server", "text": text, "index": index}
    response = html_page("start.html", values)
    response.headers["Vary"] = "Accept, Accept-Encoding"
    return response


def _page(name: str, root: str) -> Response:
    """The page with this name; a redirect for the name of a folder, and a 404 for other names."""
    if name.endswith("/"):
        return flask.redirect(f"{root}/docs/{name.rstrip('/')}", 301)
    if name == documentation.DECISIONS:
        return flask.redirect(f"{root}/docs/{name}/{documentation.INDEX}", 301)
    page = documentation.find(name, root)
    if page is None:
        flask.abort(404)
    before, after = documentation.neighbours(name)
    values = {"name": name, "body": Markup(page.html), "before": before, "after": after}
    return html_page("page.html", {**values, **_frame(f"{page.title} - Loyalty server", root)})


def _frame(title: str, root: str) -> dict[str, Any]:
    """The values that each page of the documentation has around its text."""
    return {"root": root, "title": title, "contents": documentation.contents()}


def _image(name: str) -> flask.Response:
    if name not in documentation.image_names():
        flask.abort(404)
    return cached_page((documentation.FOLDER / "images" / name).read_bytes(), "image/svg+xml")


def _markdown(name: str, base_url: str) -> flask.Response:
    page = documentation.find(name)
    if page is None:
        flask.abort(404)
    return text_page(page.markdown.replace(documentation.WRITTEN_ADDRESS, address_of(base_url)), "text/markdown")


def _guide(base_url: str) -> flask.Response:
    return text_page(documentation.guide(address_of(base_url)), "text/plain")


def _search(root: str) -> flask.Response:
    return html_page("search.html", _frame("Search - Loyalty server", root))


def _search_index(documents: Mapping[str, Mapping[str, Any]], base_path: str) -> bytes:
    """The sections of all pages and the operations of all OpenAPI documents."""
    operations = [
        section
        for surface, document in documents.items()
        for section in reference.search_sections(document, f"..{base_path}/{surface}/docs")
    ]
    return encode([*documentation.search_index(), *operations])


def _problem(slug: str, root: str) -> flask.Response:
    """The page behind the `type` of problems (RFC 9457, 3.1.1)."""
    body = documentation.problem_pages(root).get(slug)
    if body is None:
        flask.abort(404)
    return html_page("page.html", {"root": root, "title": f"/problems/{slug}", "body": Markup(body)})
