"""The documentation as the server serves it: pages, links, search, llms.txt, problem types, and the way of browsers."""

from __future__ import annotations

import gzip
import re

import pytest

import openapi
from handlers.http import documentation
from handlers.http.documentation_pages import _problem_pages
from handlers.http.pages import Site
from tests.builders.markdown import DOCS, anchors
from tests.http.support import operation, parameter, serve

PATHS = {
    "/books/{code}": {"get": operation("getBook", parameters=[parameter("code", {"type": "string"}, "path")])},
}
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.fixture(scope="module")
def client():
    return serve(PATHS)[0]


def page(client, path, **headers):
    return client("GET", path, token=None, headers=headers)


def html(client, path):
    reply = page(client, path)
    assert reply.status == 200, path
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    return reply.content.decode()


def test_every_page_is_served_and_all_its_links_lead_somewhere(client):
    served = {f"/docs/{name}" if name != "README" else "/docs": html(client, f"/docs/{name}") for name in _names()}
    others = {"/", "/docs/page.css", "/docs/search", "/v2/integration/docs", "/v2/administration/docs"}
    broken = []
    for place, text in served.items():
        for target in re.findall(r'(?:href|action)="([^"]+)"', text):
            path, _, fragment = target.partition("#")
            path = path or place
            if target.startswith(("http", "data:")):
                continue
            has_anchor = not fragment or f'id="{fragment}"' in served.get(path, "")
            if path not in {*served, *others} or not has_anchor:
                broken.append((place, target))
    assert broken == []
    for path in others:
        assert page(client, path).status == 200, path


def _names():
    return [path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")]


@pytest.mark.parametrize("name", ["events", "decisions/0012-tiers-follow-ledger-movements", "README"])
def test_headings_have_the_anchors_that_links_in_the_project_use(client, name):
    found = re.findall(r'<h\d id="([^"]+)"', html(client, f"/docs/{name}"))
    assert set(found) == anchors(DOCS / f"{name}.md")


def test_a_page_is_there_as_markdown_too(client):
    reply = page(client, "/docs/events.md")
    assert reply.headers["content-type"] == "text/markdown; charset=utf-8"
    assert reply.content.decode() == (DOCS / "events.md").read_text(encoding="utf-8")


def test_links_in_markdown_lead_to_what_is_served(client):
    for name in _names():
        text = page(client, f"/docs/{name}.md").content.decode()
        assert not re.search(r"\]\((\.\./)+(README|CHANGELOG)\.md", text), name
    decision = page(client, "/docs/decisions/README.md").content.decode()
    assert "(0001-" in decision


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("/docs/", "/docs"),
        ("/docs/quickstart/", "/docs/quickstart"),
        ("/docs/decisions", "/docs/decisions/README"),
        ("/docs/decisions/", "/docs/decisions"),
        ("/problems", "/docs/problems"),
        ("/v2/integration/docs/", "/v2/integration/docs"),
    ],
)
def test_addresses_that_people_type_lead_to_the_page(client, typed, meant):
    reply = page(client, typed)
    assert (reply.status, reply.headers["location"]) == (301, meant)


@pytest.mark.parametrize("path", ["/docs/nothing", "/docs/nothing.md", "/docs/../setup.cfg", "/docs/..%2fREADME.md"])
def test_nothing_else_is_served(client, path):
    assert page(client, path).status == 404


@pytest.mark.parametrize("path", ["/docs//quickstart", "/docs//evil.example", "//evil.example/docs"])
def test_a_path_with_two_slashes_is_not_redirected_to_the_host_of_the_request(client, path):
    reply = page(client, path, Host="evil.example")
    assert (reply.status, reply.headers.get("location")) == (404, None)


@pytest.mark.parametrize("path", ["/docs/", "/problems", "/docs/quickstart/"])
def test_redirects_name_no_host(client, path):
    reply = page(client, path, Host="evil.example")
    assert reply.status == 301
    assert reply.headers["location"].startswith("/docs")


def test_examples_have_the_address_of_the_reader(client):
    text = page(client, "/docs/content", Host="points.example:9000").content.decode()
    assert "http://points.example:9000/v2" in text
    assert documentation.WRITTEN_ADDRESS not in text
    assert "http://points.example/v2" in page(client, "/docs/content.md", Host="points.example").content.decode()
    forged = page(client, "/docs/content", Host='"><script>').content.decode()
    assert "<script>" not in forged


def test_examples_and_links_have_the_public_address_if_there_is_one():
    client, _ = serve(PATHS, site=Site(base_url="https://points.example/api/v2"))
    text = html(client, "/docs/content")
    assert "https://points.example/v2" in text
    assert 'href="/api/docs/events"' in text
    tag = openapi.bundle("integration")["tags"][0]
    assert tag["externalDocs"]["url"].startswith("/docs/")


def test_the_served_document_links_to_the_public_documentation():
    described = {**operation("getBook"), "description": "See [Events](/docs/events#returns)."}
    client, _ = serve({"/books": {"get": described}}, site=Site(base_url="https://points.example/api/v2"))
    document = page(client, "/v2/integration/openapi.json").json
    text = document["paths"]["/books"]["get"]["description"]
    assert text == "See [Events](https://points.example/api/docs/events#returns)."


def test_a_search_finds_sections_that_have_all_words(client):
    text = html(client, "/docs/search?q=partial+RETURN")
    assert '<a href="/docs/events#returns">' in text
    assert "<mark>return</mark>" in text.lower()
    assert '<a href="/docs/quickstart#quick-start">' in html(client, "/docs/search?q=quickstart")
    assert "Nothing was found" in html(client, "/docs/search?q=partial+xylophone")
    assert "<ol>" not in html(client, "/docs/search")


def test_what_was_searched_is_text_and_no_markup(client):
    text = html(client, "/docs/search?q=%22%3E%3Cscript%3E")
    assert "<script>" not in text
    assert "&quot;&gt;&lt;script&gt;" in text


def test_language_models_get_an_index_of_markdown(client):
    reply = page(client, "/llms.txt", Host="points.example")
    text = reply.content.decode()
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.startswith("# Loyalty server\n\n> ")
    for address in re.findall(r"\]\(http://points\.example(/[^)]+)\)", text):
        assert page(client, address).status == 200, address
    assert "(http://points.example/docs/events.md)" in text


def test_every_problem_type_is_explained_with_an_example_and_a_cure():
    pages = _problem_pages({surface: openapi.bundle(surface) for surface in openapi.SURFACES})
    assert len(pages) > 100
    for slug, text in pages.items():
        assert "<strong>Cure:</strong>" in text, slug
        assert f"/problems/{slug}" in text[text.index("<pre>") :], slug


def test_browsers_get_a_page_and_programs_json(client):
    assert page(client, "/").headers["content-type"] == "application/json"
    assert page(client, "/", Accept="*/*").headers["content-type"] == "application/json"
    shown = page(client, "/", **BROWSER)
    assert shown.headers["content-type"] == "text/html; charset=utf-8"
    for target in re.findall(r"""href=["'](/[^"']*)["']""", shown.content.decode()):
        assert page(client, target).status == 200, target


def test_a_browser_that_is_lost_gets_a_page_with_ways_on(client):
    lost = page(client, "/nowhere", **BROWSER)
    assert (lost.status, lost.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert 'href="/docs"' in lost.content.decode()
    assert page(client, "/nowhere").headers["content-type"] == "application/problem+json"


def test_the_version_is_told(client):
    told = page(client, "/v2/version").json
    assert re.fullmatch(r"\d+\.\d+\.\d+", told["version"])
    assert told["documents"].keys() == {"integration", "administration"}


@pytest.mark.parametrize("path", ["/docs/events", "/v2/integration/docs/swagger-ui-bundle.js"])
def test_pages_are_compressed_and_cached(client, path):
    plain = page(client, path)
    small = page(client, path, **{"Accept-Encoding": "gzip, br"})
    assert "content-encoding" not in plain.headers
    assert small.headers["content-encoding"] == "gzip"
    assert gzip.decompress(small.content) == plain.content
    assert len(small.content) * 2 < len(plain.content)
    assert small.headers["etag"] != plain.headers["etag"]
    again = page(client, path, **{"Accept-Encoding": "gzip, br", "If-None-Match": small.headers["etag"]})
    assert (again.status, again.content) == (304, b"")
