"""The served documentation: pages, links, search, llms.txt, problem types, and responses to browsers."""

from __future__ import annotations

import gzip
import json
import posixpath
import re
import subprocess

import pytest

import openapi
from handlers.http import documentation
from handlers.http.code_colours import highlight
from handlers.http.pages import Site
from handlers.http.reference import search_sections
from tests.builders.markdown import DOCS, anchors
from tests.http.support import operation, parameter, serve
from tests.npm import node

PATHS = {
    "/books/{code}": {"get": operation("getBook", parameters=[parameter("code", {"type": "string"}, "path")])},
}
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.fixture(scope="module")
def client():
    return serve(PATHS)[0]


def page(client, path, **headers):
    """The reply to a request without a token."""
    return client("GET", path, token=None, headers=headers)


def html(client, path):
    """The text of a page, which must be HTML."""
    reply = page(client, path)
    assert reply.status == 200, path
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    return reply.content.decode()


@pytest.mark.slow
def test_every_page_is_served_and_all_its_links_lead_somewhere(client):
    texts_by_path = {
        f"/docs/{name}" if name != "README" else "/docs": html(client, f"/docs/{name}") for name in _names()
    }
    other_paths = {
        "/",
        "/playground",
        "/docs/page.css",
        "/docs/page.js",
        "/docs/search",
        *(f"/docs/images/{name}" for name in documentation.image_names()),
        "/v2/integration/docs",
        "/v2/administration/docs",
    }
    broken_links = []
    for place, text in texts_by_path.items():
        for target in re.findall(r'(?:href|action|src)="([^"]+)"', text):
            path, _, fragment = target.partition("#")
            path = path or place
            if target.startswith(("http", "data:")):
                continue
            has_anchor = not fragment or f'id="{fragment}"' in texts_by_path.get(path, "")
            if path not in {*texts_by_path, *other_paths} or not has_anchor:
                broken_links.append((place, target))
    assert broken_links == []
    for path in other_paths:
        assert page(client, path).status == 200, path


def _names():
    """The names of all pages, such as "events" or "decisions/README"."""
    return [path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")]


@pytest.mark.parametrize("name", ["events", "decisions/0012-tiers-follow-ledger-movements", "README"])
def test_headings_have_the_anchors_that_links_in_the_project_use(client, name):
    heading_ids = re.findall(r'<h\d id="([^"]+)"', html(client, f"/docs/{name}"))
    assert set(heading_ids) == anchors(DOCS / f"{name}.md")


def test_a_page_is_also_served_as_markdown(client):
    reply = page(client, "/docs/events.md")
    assert reply.headers["content-type"] == "text/markdown; charset=utf-8"
    assert reply.content.decode() == (DOCS / "events.md").read_text(encoding="utf-8")


def test_links_in_markdown_lead_to_served_pages(client):
    served_paths = {f"/docs/{name}.md" for name in _names()} | {
        f"/docs/images/{name}" for name in documentation.image_names()
    }
    for name in _names():
        text = page(client, f"/docs/{name}.md").content.decode()
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            path = posixpath.normpath(posixpath.join("/docs", posixpath.dirname(name), target))
            assert path in served_paths, (name, target)
    # Links to other pages are served unchanged.
    decision = page(client, "/docs/decisions/README.md").content.decode()
    assert "(0001-" in decision


@pytest.mark.parametrize(
    ("address", "location"),
    [
        ("/docs/", "/docs"),
        ("/docs/quickstart/", "/docs/quickstart"),
        ("/docs/decisions", "/docs/decisions/README"),
        ("/docs/decisions/", "/docs/decisions"),
        ("/problems", "/docs/problems"),
        ("/v2/integration/docs/", "/v2/integration/docs"),
    ],
)
def test_addresses_that_people_type_redirect_to_the_page(client, address, location):
    reply = page(client, address)
    assert (reply.status, reply.headers["location"]) == (301, location)


def test_drawings_have_a_title_and_colours_for_dark_screens(client):
    assert len(documentation.image_names()) == 8
    for name in documentation.image_names():
        reply = page(client, f"/docs/images/{name}")
        assert (reply.status, reply.headers["content-type"]) == (200, "image/svg+xml"), name
        assert "<title>" in reply.content.decode(), name
        assert "prefers-color-scheme: dark" in reply.content.decode(), name
    drawings = re.findall(r'<img src="/docs/images/([^"]+)" alt="[^"]{20,}"', html(client, "/docs/ledger"))
    assert drawings == ["purchase-to-ledger.svg", "life-of-a-lot.svg"]
    assert page(client, "/docs/images/nothing.svg").status == 404
    for name in documentation.names():
        assert "language-mermaid" not in html(client, f"/docs/{name}"), "no script draws it: make it an image"


@pytest.mark.parametrize("path", ["/docs/nothing", "/docs/nothing.md", "/docs/../setup.cfg", "/docs/..%2fREADME.md"])
def test_paths_without_a_page_are_not_found(client, path):
    assert page(client, path).status == 404


@pytest.mark.parametrize("path", ["/docs//quickstart", "/docs//evil.example", "//evil.example/docs"])
def test_a_path_with_two_slashes_is_not_redirected_to_the_host_of_the_request(client, path):
    reply = page(client, path, Host="evil.example")
    assert (reply.status, reply.headers.get("location")) == (404, None)


@pytest.mark.parametrize("path", ["/docs/", "/problems", "/docs/quickstart/"])
def test_redirects_contain_no_host(client, path):
    reply = page(client, path, Host="evil.example")
    assert reply.status == 301
    assert reply.headers["location"].startswith("/docs")


def test_pages_are_the_same_for_all_readers(client):
    replies = [page(client, "/docs/content", Host=host) for host in ("points.example", "other.example")]
    assert replies[0].content == replies[1].content
    assert documentation.WRITTEN_ADDRESS in replies[0].content.decode()
    assert replies[0].headers["cache-control"] == "public, no-cache"


def test_the_script_of_the_pages_replaces_the_address_that_they_are_written_for(client):
    script = page(client, "/docs/page.js").content.decode()
    assert re.findall(r'WRITTEN_ADDRESS = "(.+)"', script) == [documentation.WRITTEN_ADDRESS]


def test_examples_in_markdown_have_the_address_of_the_reader(client):
    reply = page(client, "/docs/content.md", Host="points.example:9000")
    assert "http://points.example:9000/v2" in reply.content.decode()
    assert documentation.WRITTEN_ADDRESS not in reply.content.decode()
    assert reply.headers["cache-control"] == "private, no-cache"
    assert "<script>" not in page(client, "/docs/content.md", Host='"><script>').content.decode()


def test_examples_and_links_have_the_public_address_if_there_is_one():
    client, _ = serve(PATHS, site=Site(base_url="https://points.example/api/v2"))
    assert "https://points.example/api/v2" in page(client, "/docs/content.md").content.decode()
    assert "(https://points.example/api/docs/events.md)" in page(client, "/llms.txt").content.decode()
    assert 'href="/api/docs/events"' in html(client, "/docs/content")
    tag = openapi.bundle("integration")["tags"][0]
    assert tag["externalDocs"]["url"].startswith("/docs/")


def test_unknown_pages_are_not_cached(client):
    def cache_sizes():
        """The numbers of cached pages, and of cached results of `problem_pages`."""
        return documentation._read.cache_info().currsize, documentation.problem_pages.cache_info().currsize

    # The first request reads the names of all problems.
    page(client, "/problems/nothing")
    sizes_before = cache_sizes()
    for number in range(3):
        assert page(client, f"/docs/nothing-{number}").status == 404
        assert page(client, f"/problems/nothing-{number}").status == 404
    assert cache_sizes() == sizes_before


def test_the_served_document_links_to_the_public_documentation():
    described_operation = {**operation("getBook"), "description": "See [Events](/docs/events#returns)."}
    client, _ = serve({"/books": {"get": described_operation}}, site=Site(base_url="https://points.example/api/v2"))
    document = page(client, "/v2/integration/openapi.json").json
    text = document["paths"]["/books"]["get"]["description"]
    assert text == "See [Events](https://points.example/api/docs/events#returns)."


def test_the_search_index_has_every_section_of_every_page(client):
    reply = page(client, "/docs/search.json", **{"Accept-Encoding": "gzip"})
    assert reply.headers["content-encoding"] == "gzip"
    urls = {section["url"] for section in json.loads(gzip.decompress(reply.content))}
    sections = {f"{name}#{anchor}" for name in _names() for anchor in anchors(DOCS / f"{name}.md")}
    assert urls == sections | {"../v2/integration/docs#getBook"}


def test_an_operation_is_found_by_the_names_of_its_fields():
    members = {"type": "object", "properties": {"nickname": {"$ref": "#/components/schemas/Nickname"}}}
    schemas = {"Members": {"type": "array", "items": {"$ref": "#/components/schemas/Member"}}, "Member": members}
    schemas["Member"]["properties"]["sponsor"] = {"$ref": "#/components/schemas/Member"}
    schemas["Nickname"] = {"type": "string"}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Members"}, "example": {"ignored": 1}}}
    list_operation = {**operation("listMembers"), "responses": {"200": {"content": content}, "400": {"content": {}}}}
    document = {
        "info": {"title": "Shop"},
        "paths": {"/members": {"get": list_operation}},
        "components": {"schemas": schemas},
    }
    [section] = search_sections(document, "../docs")
    assert section["url"] == "../docs#listMembers"
    assert section["text"].split()[:2] == ["GET", "/members"]
    assert section["text"].endswith(" Fields: nickname, sponsor")


SEARCH = """
import { readFileSync } from "node:fs";
import { buildIndex, findSections, snippetOf } from "./search.js";
const index = buildIndex(JSON.parse(readFileSync("search.json")));
const find = (query) => findSections(index, query).map((section) => [section.id, snippetOf(section)]);
console.log(JSON.stringify(JSON.parse(process.argv[2]).map(find)));
"""


@pytest.fixture
def search(client, tmp_path):
    """Search as the script of the page does; return the sections of each query and their snippets with the words."""
    program = node()
    if program is None:
        pytest.skip("there is no Node")
    for name in ("search.js", "minisearch.js", "search.json"):
        (tmp_path / name).write_bytes(page(client, f"/docs/{name}").content)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "run.js").write_text(SEARCH)

    def run(*queries):
        command = [program, "run.js", json.dumps(queries)]
        return json.loads(subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120).stdout)

    return run


@pytest.mark.slow
def test_a_search_finds_sections_that_have_all_words(search):
    queries = ("partial RETURN", "quickstart", "idempot", "campagns", "LOYALTY_THREADS", "partial xylophone", " ")
    sections = dict(zip(queries, search(*queries), strict=True))
    first_urls = {query: sections_of_query[0][0] for query, sections_of_query in sections.items() if sections_of_query}
    # A recipe about partial returns may come first.
    snippets = dict(sections["partial RETURN"][:2])
    # Every second part of a snippet is one of the words.
    assert set(snippets["events#returns"][1::2]) == {"partially", "returned"}
    assert first_urls["quickstart"] == "quickstart#quick-start"
    # The beginning of a word, and a mistyped word.
    assert first_urls["idempot"] == "events#idempotency"
    assert first_urls["campagns"].startswith("campaigns#")
    sections_of_setting = dict(sections["LOYALTY_THREADS"])
    assert sections_of_setting.keys() >= {"configuration#server-processes-and-addresses", "operations#sizing"}
    assert all("LOYALTY_THREADS" in parts for parts in sections_of_setting.values())
    assert sections["partial xylophone"] == []
    assert sections[" "] == []


def test_a_search_shows_the_text_around_the_words(search):
    [sections] = search("savepoint")
    for url, parts in sections:
        text = "".join(parts)
        # 200 characters, and an ellipsis at each end
        assert len(text) <= 206, url
        assert all("savepoint" in word.lower() for word in parts[1::2]), url
    assert any(parts[1::2] for _, parts in sections)


@pytest.mark.slow
def test_a_search_accepts_pattern_characters(search):
    letters, no_word, script = search("a.b*(c)[d]$", "\\", "<script>")
    # The characters separate words, and are not searched.
    assert (letters, no_word, script) == (search("a b c d")[0], [], search("script")[0])


def test_language_models_get_an_index_of_markdown(client):
    reply = page(client, "/llms.txt", Host="points.example")
    text = reply.content.decode()
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.startswith("# Loyalty server\n\n> ")
    for address in re.findall(r"\]\(http://points\.example(/[^)]+)\)", text):
        assert page(client, address).status == 200, address
    assert "(http://points.example/docs/events.md)" in text


def test_every_problem_type_is_explained_with_an_example_and_a_cure():
    pages = documentation.problem_pages()
    assert len(pages) > 100
    for slug, text in pages.items():
        assert "<strong>Cure:</strong>" in text, slug
        assert f"/problems/{slug}" in text[text.index("<pre>") :], slug


def test_browsers_get_a_page_and_programs_get_json(client):
    assert page(client, "/").headers["content-type"] == "application/json"
    assert page(client, "/", Accept="*/*").headers["content-type"] == "application/json"
    reply = page(client, "/", **BROWSER)
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    for target in re.findall(r"""href=["'](/[^"']*)["']""", reply.content.decode()):
        assert page(client, target).status == 200, target


def test_a_browser_at_an_unknown_address_gets_a_page_with_links(client):
    reply = page(client, "/nowhere", **BROWSER)
    assert (reply.status, reply.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert 'href="/docs"' in reply.content.decode()
    assert page(client, "/nowhere").headers["content-type"] == "application/problem+json"


def test_the_version_is_reported(client):
    version = page(client, "/v2/version").json
    assert re.fullmatch(r"\d+\.\d+\.\d+", version["version"])
    assert version["documents"].keys() == {"integration", "administration"}


@pytest.mark.parametrize("path", ["/docs/events", "/docs/reference.js"])
def test_pages_are_compressed_and_cached(client, path):
    uncompressed = page(client, path)
    compressed = page(client, path, **{"Accept-Encoding": "gzip, br"})
    assert "content-encoding" not in uncompressed.headers
    assert compressed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(compressed.content) == uncompressed.content
    assert len(compressed.content) * 2 < len(uncompressed.content)
    assert compressed.headers["etag"] != uncompressed.headers["etag"]
    revalidation = page(client, path, **{"Accept-Encoding": "gzip, br", "If-None-Match": compressed.headers["etag"]})
    assert (revalidation.status, revalidation.content) == (304, b"")


def test_pages_can_only_run_scripts_of_the_server(client):
    reply = page(client, "/docs/quickstart")
    policy = dict(part.strip().split(" ", 1) for part in reply.headers["content-security-policy"].split(";"))
    assert (policy["default-src"], policy["script-src"], policy["style-src"]) == ("'none'", "'self'", "'self'")
    text = reply.content.decode()
    assert re.findall(r"<script[^>]*>", text) == ['<script type="module" src="/docs/page.js">']
    assert not re.search(r"<style|style=| on[a-z]+=", text)
    for path in ("/docs/page.js", "/docs/page.css", "/docs/search.js", "/docs/reference.js"):
        assert page(client, path).headers["cache-control"] == "public, no-cache"


@pytest.mark.parametrize(
    ("name", "previous_page", "next_page"),
    [
        ("quickstart", None, "concepts"),
        ("concepts", "quickstart", "recipes"),
        ("fuzzing", "contract-style", None),
        ("decisions/0001-postgresql-only", None, "decisions/0002"),
    ],
)
def test_a_page_links_to_the_pages_before_and_after_it(client, name, previous_page, next_page):
    links = dict(re.findall(r'<a rel="(prev|next)" href="/docs/([^"]+)"', html(client, f"/docs/{name}")))
    assert links.keys() == {rel for rel, neighbour in (("prev", previous_page), ("next", next_page)) if neighbour}
    assert links.get("prev", "").startswith(previous_page or "")
    assert links.get("next", "").startswith(next_page or "")


@pytest.mark.parametrize(
    ("language", "code", "markup"),
    [
        ("json", '{"a": [1, "<b>", null]}', '{<i class="name">&quot;a&quot;</i>: [<i class="number">1</i>, '
         '<i class="string">&quot;&lt;b&gt;&quot;</i>, <i class="word">null</i>]}'),
        ("http", 'POST /v2/a\nHost: b', '<i class="method">POST</i> /v2/a\n<i class="heading">Host</i>: b'),
        ("sh", "curl -s $A # b", '<i class="word">curl</i> <i class="name">-s</i> <i class="name">$A</i> '
         '<i class="comment"># b</i>'),
        ("sh", "echo '{\n}'", "echo <i class=\"string\">&#x27;{\n}&#x27;</i>"),
        ("cel", "a >= 50 // b", 'a &gt;= <i class="number">50</i> <i class="comment">// b</i>'),
        ("yaml", "- a: 1", '- <i class="name">a</i>: <i class="number">1</i>'),
        ("python", "return 'a'", '<i class="word">return</i> <i class="string">&#x27;a&#x27;</i>'),
        ("ini", "[a]\nb = c", '<i class="word">[a]</i>\n<i class="name">b</i> = c'),
        ("", "<a>", "&lt;a&gt;"),
    ],
)  # fmt: skip
def test_code_is_coloured_by_its_language(language, code, markup):
    assert highlight(code, language) == markup
