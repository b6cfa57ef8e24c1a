"""The routes of the documentation: pages as HTML and as Markdown, search, llms.txt, and the pages of problem types."""

import html
import re
from collections.abc import Mapping
from typing import Any

import flask
from werkzeug import Response

from handlers.http import documentation
from handlers.http.page_answers import (
    SCRIPT,
    STYLE,
    address_of,
    cached_page,
    framed,
    html_page,
    root_of,
    text_page,
)

# The rows of the table in the schema Problem, which is the list of all types.
_PROBLEM_ROW = re.compile(r"^\| `/problems/([a-z0-9-]+)` \| (\d{3}) \| (.+) \|$", re.M)
_LONGEST_QUERY = 200


def add_documentation(app: flask.Flask, documents: Mapping[str, Mapping[str, Any]], base_url: str) -> None:
    """Add the routes; `base_url` is the public one, if it is configured."""
    root = root_of(base_url)
    problems = _problem_pages(documents, root)
    style, script = STYLE.encode(), SCRIPT.encode()
    app.add_url_rule("/docs", "documentation", lambda: _page(documentation.INDEX, base_url))
    app.add_url_rule("/docs/page.css", "style", lambda: cached_page(style, "text/css; charset=utf-8", 0))
    app.add_url_rule("/docs/page.js", "script", lambda: cached_page(script, "text/javascript; charset=utf-8", 0))
    app.add_url_rule("/docs/", "documentation_index", lambda: flask.redirect(f"{root}/docs", 301))
    app.add_url_rule("/problems", "problems", lambda: flask.redirect(f"{root}/docs/problems", 301))
    app.add_url_rule("/docs/search", "search", lambda: _search(flask.request.args.get("q", ""), base_url))
    app.add_url_rule("/docs/<path:name>.md", "markdown", lambda name: _markdown(name, base_url))
    app.add_url_rule("/docs/<path:name>", "documentation_page", lambda name: _page(name, base_url))
    app.add_url_rule("/llms.txt", "guide", lambda: _guide(base_url))
    app.add_url_rule("/problems/<slug>", "problem", lambda slug: _problem(problems, slug, base_url))


def not_found_page(base_url: str, detail: str) -> flask.Response:
    """A 404 for people, with the ways on from there."""
    return html_page(
        framed("Not found", f"<h1>Not found</h1><p>{html.escape(detail)}</p>{_ways(base_url)}", root_of(base_url)), 404
    )


def index_page(base_url: str, index: Mapping[str, Any]) -> flask.Response:
    """The page under `/` for people."""
    root = root_of(base_url)
    lines = [
        f"<li>{html.escape(name)}: <a href='{root}{path}'>{path}</a></li>"
        for name, path in (
            ("Is the server alive", index["health"]["live"]),
            ("Is it ready", index["health"]["ready"]),
            ("Version", index["version"]),
            ("Metrics", index["metrics"]),
            ("Keys of its tokens", index["keys"]),
            ("The documentation for language models", index["guide"]),
        )
    ]
    about = "<p>An HTTP JSON API that runs loyalty programs: events in, points out.</p>"
    body = f"<h1>Loyalty server</h1>{about}{_ways(base_url)}<h2>The server itself</h2><ul>{''.join(lines)}</ul>"
    response = html_page(framed("Loyalty server", body, root))
    response.headers["Vary"] = "Accept, Accept-Encoding"
    return response


def _ways(base_url: str) -> str:
    root = html.escape(root_of(base_url))
    return f"""<ul>
<li><a href="{root}/docs/quickstart">Quick start</a>: from nothing to points in five calls</li>
<li><a href="{root}/docs">Documentation</a></li>
<li><a href="{root}/v2/integration/docs">API reference of the integration</a>, for shops and apps
(<a href="{root}/v2/integration/openapi.json">OpenAPI</a>)</li>
<li><a href="{root}/v2/administration/docs">API reference of the administration</a>, for those who configure programs
(<a href="{root}/v2/administration/openapi.json">OpenAPI</a>)</li>
</ul>"""


def _page(name: str, base_url: str) -> Response:
    if name.endswith("/"):
        return flask.redirect(f"{root_of(base_url)}/docs/{name.rstrip('/')}", 301)
    if name == documentation.DECISIONS:
        return flask.redirect(f"{root_of(base_url)}/docs/{name}/{documentation.INDEX}", 301)
    page = documentation.find(name, root_of(base_url))
    if page is None:
        flask.abort(404)
    body = page.html.replace(documentation.WRITTEN_ADDRESS, html.escape(address_of(base_url)))
    return html_page(framed(f"{page.title} - Loyalty server", body, root_of(base_url), current=name))


def _markdown(name: str, base_url: str) -> flask.Response:
    page = documentation.find(name)
    if page is None:
        flask.abort(404)
    return text_page(page.markdown.replace(documentation.WRITTEN_ADDRESS, address_of(base_url)), "text/markdown")


def _guide(base_url: str) -> flask.Response:
    return text_page(documentation.guide(address_of(base_url), root_of(base_url)), "text/plain")


def _search(query: str, base_url: str) -> flask.Response:
    query, root = query[:_LONGEST_QUERY], root_of(base_url)
    results = []
    for result in documentation.search(query):
        place = "" if result.page.name == documentation.INDEX else f"/{result.page.name}"
        title = (
            result.page.title
            if result.section.title == result.page.title
            else f"{result.page.title}: {result.section.title}"
        )
        results.append(
            f'<li><a href="{root}/docs{place}#{html.escape(result.section.anchor)}">{html.escape(title)}</a>'
            f"<br>{_marked(result.snippet, query)}</li>"
        )
    listing = (
        f"<ol>{''.join(results)}</ol>" if results else "<p>Nothing was found. All words have to be in one section.</p>"
    )
    return html_page(framed("Search - Loyalty server", f"<h1>Search</h1>{listing}", root, current="", query=query))


def _marked(text: str, query: str) -> str:
    """HTML of a text in which the words of the query are marked."""
    words = "|".join(re.escape(word) for word in query.split())
    parts = re.split(f"({words})", text, flags=re.IGNORECASE) if words else [text]
    return "".join(
        f"<mark>{html.escape(part)}</mark>" if number % 2 else html.escape(part) for number, part in enumerate(parts)
    )


def _problem_pages(documents: Mapping[str, Mapping[str, Any]], root: str = "") -> dict[str, str]:
    """The meaning of each problem type, an example and its cure, as HTML by slug.

    These are the pages behind the `type` of problems (RFC 9457, 3.1.1).
    """
    schemas = (document.get("components", {}).get("schemas", {}) for document in documents.values())
    tables = (by_name["Problem"].get("description", "") for by_name in schemas if "Problem" in by_name)
    sections = documentation.problem_sections()
    pages = {}
    for slug, status, meaning in (row for table in tables for row in _PROBLEM_ROW.findall(table)):
        told = documentation.render(sections.get(slug, ""), "problems", root)
        pages[slug] = (
            f"<h1><code>/problems/{slug}</code></h1><p>Status {status}</p><p>{_code(html.escape(meaning))}</p>"
            f'{told}<p><a href="{html.escape(root)}/docs/problems">All problems</a></p>'
        )
    return pages


def _code(text: str) -> str:
    """Markdown's code spans as HTML."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", text)


def _problem(problems: Mapping[str, str], slug: str, base_url: str) -> flask.Response:
    if slug not in problems:
        flask.abort(404)
    return html_page(framed(f"/problems/{slug}", problems[slug], root_of(base_url)))
