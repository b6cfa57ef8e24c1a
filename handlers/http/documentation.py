"""The documentation: the pages of docs/, read and rendered once."""

import functools
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from handlers.http.code_colours import highlight

FOLDER = Path(__file__).parents[2] / "docs"
INDEX = "README"
DECISIONS = "decisions"
PROBLEMS = "problems"
# The address of the server in the pages as written; it is replaced by the address of the server that serves them.
WRITTEN_ADDRESS = "http://127.0.0.1:8080"
_LINK_OUTSIDE = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")
_INDEX_ENTRY = re.compile(r"^- \[([^\]]+)\]\(([\w/-]+)\.md\): (.+)$", re.M)


@dataclass(frozen=True, slots=True)
class GuideSection:
    """The text below one heading of a page, without its Markdown."""

    title: str
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class GuidePage:
    """One page: its Markdown, its HTML, and its sections."""

    name: str
    title: str
    markdown: str
    html: str
    sections: tuple[GuideSection, ...]


@dataclass(frozen=True, slots=True)
class GuideEntry:
    """A line of the index: a page and what is on it."""

    title: str
    name: str
    about: str


@functools.cache
def names() -> tuple[str, ...]:
    """The names of all pages, such as `events` or `decisions/0001-postgresql-only`."""
    return tuple(sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.md")))


@functools.cache
def image_names() -> tuple[str, ...]:
    """The names of the files of drawings, in the folder `images`."""
    return tuple(sorted(path.name for path in (FOLDER / "images").glob("*.svg")))


def find(name: str, root: str = "") -> GuidePage | None:
    """A page, whose links begin with the path `root` of the server; None if there is no page with this name."""
    return _read(name, root) if name in names() else None


@functools.cache
def _read(name: str, root: str) -> GuidePage:
    """Read and render an existing page."""
    markdown = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    tokens = _parser().parse(markdown)
    sections = _anchor_headings(tokens)
    html = _render(tokens, name, root)
    return GuidePage(name, sections[0].title, _with_served_links(markdown, name), html, sections)


@functools.cache
def contents() -> tuple[tuple[str, tuple[GuideEntry, ...]], ...]:
    """The entries of the index by the title of their section."""
    text = (FOLDER / f"{INDEX}.md").read_text(encoding="utf-8")
    return tuple(
        (title, tuple(GuideEntry(*entry) for entry in _INDEX_ENTRY.findall(section)))
        for title, section in _split_at_headings(text, r"^## (.+)$")
    )


def _split_at_headings(text: str, heading: str) -> Iterator[tuple[str, str]]:
    """Yield the title and the text below each heading; the one group of the pattern `heading` is the title."""
    _, *titles_and_texts = re.split(heading, text, flags=re.M)
    yield from zip(titles_and_texts[::2], titles_and_texts[1::2], strict=True)


@functools.cache
def neighbours(name: str) -> tuple[GuideEntry | None, GuideEntry | None]:
    """The pages before and after a page, in the order of the index, decisions by number; None where there is none."""
    if name.startswith(f"{DECISIONS}/"):
        decisions = [find(other) for other in names() if other.startswith(f"{DECISIONS}/")]
        order = [GuideEntry(page.title, page.name, "") for page in decisions if page is not None]
    else:
        order = [entry for _, entries in contents() for entry in entries]
    padded_order = [None, *order, None]
    positions = [position for position, entry in enumerate(padded_order) if entry is not None and entry.name == name]
    return (padded_order[positions[0] - 1], padded_order[positions[0] + 1]) if positions else (None, None)


@functools.cache
def search_index() -> list[dict[str, str]]:
    """The sections of all pages for the script of the search page; `url` is relative to `/docs/`."""
    pages = [page for name in names() if (page := find(name)) is not None]
    return [
        {"url": f"{page.name}#{section.anchor}", "page": page.title, "title": section.title, "text": section.text}
        for page in pages
        for section in page.sections
    ]


@functools.cache
def problem_pages(root: str = "") -> dict[str, str]:
    """The sections of the page of problems, as HTML by the slug of their type."""
    text = (FOLDER / f"{PROBLEMS}.md").read_text(encoding="utf-8")
    pages = {}
    for slug, rest in _split_at_headings(text, r"^### `/problems/([a-z-]+)`\n"):
        section, _, _ = rest.partition("\n## ")
        markdown = f"# `/problems/{slug}`\n{section}\n[All problems]({PROBLEMS}.md)\n"
        pages[slug] = _render(_parser().parse(markdown), PROBLEMS, root)
    return pages


def guide(address: str) -> str:
    """The text of llms.txt: what the server is, with links to the OpenAPI documents and the Markdown of each page."""
    lines = ["# Loyalty server", "", "> An HTTP JSON API that runs loyalty programs: events in, points out.", ""]
    lines += ["## API", ""]
    for surface, about in (("integration", "for shops and apps"), ("administration", "for administrators")):
        lines.append(f"- [OpenAPI, {surface}]({address}/v2/{surface}/openapi.json): the interface {about}")
    lines.append(f"- [AsyncAPI, webhooks]({address}/asyncapi.json): the messages that receivers of webhooks get")
    for title, entries in contents():
        lines += ["", f"## {title}", ""]
        lines += [f"- [{entry.title}]({address}/docs/{entry.name}.md): {entry.about}" for entry in entries]
    return "\n".join([*lines, ""])


def to_html(markdown: str) -> str:
    """The HTML of a text in Markdown that is no page, such as the description of an OpenAPI document."""
    return str(_parser().render(markdown))


@functools.cache
def _parser() -> MarkdownIt:
    options = {"html": False, "highlight": lambda code, language, _: highlight(code, language)}
    return MarkdownIt("commonmark", options).enable("table")


def _anchor_headings(tokens: Sequence[Token]) -> tuple[GuideSection, ...]:
    """Set the anchors of a page's headings, which are those of GitHub; return the sections of the page."""
    # The title, the anchor and the texts of each section; `texts` are those of the last one.
    sections: list[tuple[str, str, list[str]]] = []
    texts: list[str] = []
    counts: dict[str, int] = {}
    for previous, token in zip([None, *tokens], tokens, strict=False):
        if previous is not None and previous.type == "heading_open":
            title = "".join(child.content for child in token.children or ())
            anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            counts[anchor] = counts.get(anchor, -1) + 1
            anchor += f"-{counts[anchor]}" if counts[anchor] else ""
            previous.attrSet("id", anchor)
            texts = []
            sections.append((title, anchor, texts))
        elif token.type == "inline":
            texts.append("".join(_text_of(child) for child in token.children or ()))
        elif token.type == "fence":
            texts.append(token.content)
    return tuple(GuideSection(title, anchor, " ".join(" ".join(texts).split())) for title, anchor, texts in sections)


def _text_of(token: Token) -> str:
    return " " if token.type == "softbreak" else token.content


def _render(tokens: Sequence[Token], page: str, root: str) -> str:
    """The HTML of the parsed Markdown of a page, whose links lead to addresses of the server."""
    _link(tokens, page, root)
    for opening, content, closing in zip(tokens, tokens[1:], tokens[2:], strict=False):
        # An empty cell is no heading.
        if opening.type == "th_open" and not content.content:
            opening.tag = closing.tag = "td"
    return str(_parser().renderer.render(tokens, _parser().options, {}))


def _link(tokens: Sequence[Token], page: str, root: str) -> None:
    """Replace links between pages by addresses of the server; remove links to files that it does not serve."""
    for token in tokens:
        # For each open link, whether the server serves its target: the end of a link is removed with its beginning.
        are_served: list[bool] = []
        for child in token.children or ():
            if child.type == "image":
                child.attrSet("src", f"{root}/docs/{child.attrGet('src')}")
            elif child.type == "link_open":
                target = _target(str(child.attrGet("href")), page, root)
                are_served.append(target is not None)
                if target is None:
                    _remove(child)
                else:
                    child.attrSet("href", target)
            elif child.type == "link_close" and not are_served.pop():
                _remove(child)


def _remove(token: Token) -> None:
    """Make a token an empty text, which renders as nothing."""
    token.type, token.tag, token.nesting, token.content = "text", "", 0, ""


def _target(href: str, page: str, root: str) -> str | None:
    """The address on this server for a link of a page; None for a file that it does not serve.

    Links to other sites and within the page are returned unchanged.
    """
    if re.match(r"https?:|#", href):
        return href
    path, _, fragment = href.partition("#")
    name = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)).removesuffix(".md")
    if name not in names():
        return None
    address = f"{root}/docs" if name == INDEX else f"{root}/docs/{name}"
    return f"{address}#{fragment}" if fragment else address


def _with_served_links(markdown: str, page: str) -> str:
    """The Markdown of a page in which links to files that the server does not serve are replaced by their texts."""

    def link_or_text(match: re.Match[str]) -> str:
        link, text, address = match[0], match[1], match[2]
        return text if _target(address, page, "") is None else link

    return _LINK_OUTSIDE.sub(link_or_text, markdown)
