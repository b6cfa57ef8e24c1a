"""The documentation: the pages of docs/, read and rendered once, and searched."""

import functools
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from handlers.http.code_colours import coloured

FOLDER = Path(__file__).parents[2] / "docs"
INDEX = "README"
DECISIONS = "decisions"
# Pages are written for a server at this address; readers see that of the server that they ask.
WRITTEN_ADDRESS = "http://127.0.0.1:8080"
_MOST_RESULTS = 30
_SNIPPET = 200
_NAME = re.compile(r"[\w-]+(/[\w-]+)?")
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")
_ENTRY = re.compile(r"^- \[([^\]]+)\]\(([\w/-]+)\.md\): (.+)$", re.M)


@dataclass(frozen=True, slots=True)
class GuideSection:
    """The text below one heading of a page, without its Markdown."""

    title: str
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class GuidePage:
    """One page: its Markdown as written, the HTML of it, and its sections."""

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


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A section that a search has found, with the words around the first match."""

    page: GuidePage
    section: GuideSection
    snippet: str


@functools.cache
def names() -> tuple[str, ...]:
    """The names of all pages, such as `events` or `decisions/0001-postgresql-only`."""
    return tuple(sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.md")))


@functools.cache
def find(name: str, root: str = "") -> GuidePage | None:
    """A page whose links begin with `root`, the path under which the server is reached; None if there is none."""
    if not _NAME.fullmatch(name) or name not in names():
        return None
    markdown = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    tokens = _parser().parse(markdown)
    sections = _sections(tokens)
    _link(tokens, name, root)
    html = _parser().renderer.render(tokens, _parser().options, {})
    return GuidePage(name, sections[0].title, _with_served_links(markdown, name), html, sections)


def render(markdown: str, page: str, root: str = "") -> str:
    """The HTML of a part of a page."""
    tokens = _parser().parse(markdown)
    _link(tokens, page, root)
    return str(_parser().renderer.render(tokens, _parser().options, {}))


@functools.cache
def contents() -> tuple[tuple[str, tuple[GuideEntry, ...]], ...]:
    """The entries of the index by the title of their section."""
    text = (FOLDER / f"{INDEX}.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^## (.+)$", text, flags=re.M)
    return tuple(
        (title, tuple(GuideEntry(*entry) for entry in _ENTRY.findall(part)))
        for title, part in zip(parts[::2], parts[1::2], strict=True)
    )


@functools.cache
def neighbours(name: str) -> tuple[GuideEntry | None, GuideEntry | None]:
    """The pages before and after a page: in the order of the index, decisions by number."""
    if name.startswith(f"{DECISIONS}/"):
        decisions = [find(other) for other in names() if other.startswith(f"{DECISIONS}/")]
        order = [GuideEntry(page.title, page.name, "") for page in decisions if page is not None]
    else:
        order = [entry for _, entries in contents() for entry in entries]
    around = [None, *order, None]
    places = [place for place, entry in enumerate(around) if entry is not None and entry.name == name]
    return (around[places[0] - 1], around[places[0] + 1]) if places else (None, None)


def search(query: str) -> Sequence[SearchHit]:
    """The sections that have all words, at most 30.

    Those with the words in their titles come first, and of equal ones the decisions last.
    """
    words = query.lower().split()[:10]
    if not words:
        return []
    ranked = []
    for name in names():
        page = find(name)
        assert page is not None
        for section in page.sections:
            title, text = f"{page.name} {page.title} {section.title}".lower(), section.text.lower()
            if all(word in title or word in text for word in words):
                is_decision = name.startswith(f"{DECISIONS}/")
                rank = -sum(word in title for word in words), is_decision, -sum(text.count(word) for word in words)
                ranked.append((rank, SearchHit(page, section, _snippet(section.text, words))))
    return [result for _, result in sorted(ranked, key=lambda one: one[0])[:_MOST_RESULTS]]


@functools.cache
def problem_sections() -> dict[str, str]:
    """The text of the page of problems about each type, as Markdown by slug."""
    text = (FOLDER / "problems.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^### `/problems/([a-z-]+)`\n", text, flags=re.M)
    return {slug: part.partition("\n## ")[0] for slug, part in zip(parts[::2], parts[1::2], strict=True)}


def guide(address: str, root: str) -> str:
    """The index in the form of llms.txt: what the server is, and the Markdown of each page."""
    lines = ["# Loyalty server", "", "> An HTTP JSON API that runs loyalty programs: events in, points out.", ""]
    lines += ["## API", ""]
    for surface, about in (("integration", "for shops and apps"), ("administration", "for those who configure")):
        lines.append(f"- [OpenAPI, {surface}]({address}{root}/v2/{surface}/openapi.json): the interface {about}")
    for title, entries in contents():
        lines += ["", f"## {title}", ""]
        lines += [f"- [{entry.title}]({address}{root}/docs/{entry.name}.md): {entry.about}" for entry in entries]
    return "\n".join([*lines, ""])


@functools.cache
def _parser() -> MarkdownIt:
    options = {"html": False, "highlight": lambda code, language, _: coloured(code, language)}
    return MarkdownIt("commonmark", options).enable("table")


def _sections(tokens: Sequence[Token]) -> tuple[GuideSection, ...]:
    """The sections of a page; its headings get the anchors that GitHub gives them."""
    sections: list[tuple[str, str, list[str]]] = []
    taken: dict[str, int] = {}
    for before, token in zip([None, *tokens], tokens, strict=False):
        if before is not None and before.type == "heading_open":
            title = "".join(child.content for child in token.children or ())
            anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            taken[anchor] = taken.get(anchor, -1) + 1
            anchor += f"-{taken[anchor]}" if taken[anchor] else ""
            before.attrSet("id", anchor)
            sections.append((title, anchor, []))
        elif token.type == "inline":
            sections[-1][2].append("".join(_text_of(child) for child in token.children or ()))
        elif token.type == "fence":
            sections[-1][2].append(token.content)
    return tuple(GuideSection(title, anchor, " ".join(" ".join(texts).split())) for title, anchor, texts in sections)


def _text_of(token: Token) -> str:
    return " " if token.type == "softbreak" else token.content


def _link(tokens: Sequence[Token], page: str, root: str) -> None:
    """Make links between pages those of the server; files that it does not serve lose theirs."""
    for token in tokens:
        stack: list[bool] = []
        for child in token.children or ():
            if child.type == "link_open":
                target = _target(str(child.attrGet("href")), page, root)
                stack.append(target is not None)
                if target is not None:
                    child.attrSet("href", target)
                    continue
            elif child.type != "link_close" or stack.pop():
                continue
            child.type, child.tag, child.nesting = "text", "", 0


def _target(href: str, page: str, root: str) -> str | None:
    if re.match(r"https?:|#", href):
        return href
    path, _, fragment = href.partition("#")
    name = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)).removesuffix(".md")
    if name not in names():
        return None
    address = f"{root}/docs" if name == INDEX else f"{root}/docs/{name}"
    return f"{address}#{fragment}" if fragment else address


def _with_served_links(markdown: str, page: str) -> str:
    """Markdown in which links to files that the server does not have are their texts alone."""
    return _OUTSIDE.sub(lambda link: link[0] if _target(link[2], page, "") is not None else link[1], markdown)


def _snippet(text: str, words: Sequence[str]) -> str:
    """The text around the first of the words, cut between words."""
    at = min((place for word in words if (place := text.lower().find(word)) >= 0), default=0)
    start = text.rfind(" ", 0, max(0, at - _SNIPPET // 3)) + 1
    end = len(text) if len(text) <= start + _SNIPPET else text.rfind(" ", start, start + _SNIPPET)
    end = end if end > at else start + _SNIPPET
    return ("… " if start else "") + text[start:end] + (" …" if end < len(text) else "")
