"""The pages in Markdown: all are in an index, and their links and the paths in them exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from domain.orders import TRANSITIONS
from persistence.tables import metadata
from tests.builders.markdown import anchors, headings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
DECISIONS = DOCS / "decisions"
PAGES = sorted({*ROOT.glob("*.md"), *DOCS.rglob("*.md")})
# The changelog contains former paths.
CURRENT_PAGES = [page for page in PAGES if page.name != "CHANGELOG.md"]
NUMBERED = sorted(DECISIONS.glob("[0-9]*.md"))

_CODE = re.compile(r"^(`{3,}|~{3,}).*?^\1`*$|`[^`\n]+`", re.M | re.S)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_DOTTED_NAME = re.compile(r"`[^`\n]*?(?<![\w./-])((?:bench|domain|handlers|openapi|persistence|tests)(?:\.\w+)+)")
_PROJECT_PATH = re.compile(r"(?<![\w./<>-])(?:bench|docs|domain|handlers|openapi|persistence|tests)/[\w./-]*")


def _relative_name(page: Path) -> str:
    """The path of a page in the project."""
    return page.relative_to(ROOT).as_posix()


def _links(page: Path) -> list[str]:
    """The targets of a page's links inside the project."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    return [target for target in _LINK.findall(text) if not re.match(r"[a-z]+:", target)]


@pytest.mark.parametrize("page", PAGES, ids=_relative_name)
def test_links_lead_to_pages_and_headings(page: Path) -> None:
    broken_links = []
    for target in _links(page):
        name, _, fragment = target.partition("#")
        target_page = (page.parent / name).resolve() if name else page
        if not target_page.exists() or (fragment and fragment not in anchors(target_page)):
            broken_links.append(target)
    assert broken_links == []


def test_every_page_is_in_the_index() -> None:
    linked_pages = {(DOCS / target).resolve() for target in _links(DOCS / "README.md")}
    pages = {page for page in PAGES if page.parent == DOCS} | {DECISIONS / "README.md"}
    assert pages - linked_pages == {DOCS / "README.md"}


def test_an_entry_of_the_index_is_one_line() -> None:
    entries = re.findall(r"^- .*$", (DOCS / "README.md").read_text(encoding="utf-8"), re.M)
    assert len(entries) > 10
    assert [entry for entry in entries if not re.fullmatch(r"- \[[^\]]+\]\([^)]+\): .+\.", entry)] == []


@pytest.mark.parametrize("page", CURRENT_PAGES, ids=_relative_name)
def test_paths_of_the_project_exist(page: Path) -> None:
    paths = {path.rstrip(".") for path in _PROJECT_PATH.findall(page.read_text(encoding="utf-8"))}
    assert {path for path in paths if not (ROOT / path).exists()} == set()


def _is_defined(name: str) -> bool:
    """True if a dotted name is a module, or a name within a module."""
    place, *parts = ROOT, *name.split(".")
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    module = place / f"{parts[0]}.py" if parts else place / "__init__.py"
    if not module.exists():
        return False
    return all(re.search(rf"\b{part}\b", module.read_text(encoding="utf-8")) for part in parts[1:])


@pytest.mark.parametrize("page", CURRENT_PAGES, ids=_relative_name)
def test_dotted_names_of_the_project_exist(page: Path) -> None:
    names = set(_DOTTED_NAME.findall(page.read_text(encoding="utf-8")))
    assert {name for name in names if not _is_defined(name)} == set()


def test_decisions_are_numbered_without_gaps() -> None:
    assert len(NUMBERED) > 40
    assert [page.name[:5] for page in NUMBERED] == [f"{number:04}-" for number in range(1, len(NUMBERED) + 1)]


@pytest.mark.parametrize("page", NUMBERED, ids=lambda page: page.name[:4])
def test_a_decision_has_its_parts_and_is_in_the_index(page: Path) -> None:
    title, *parts = headings(page)
    number, _, statement = title.partition(". ")
    assert int(number) == int(page.name[:4])
    assert parts == ["Context", "Decision", "Consequences"]
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    assert f"- {page.name[:4]}: [{statement}]({page.name})\n" in index


def test_the_glossary_is_in_alphabetical_order() -> None:
    sections = re.split(r"^## ", (DOCS / "glossary.md").read_text(encoding="utf-8"), flags=re.M)[1:]
    terms_of_sections = [re.findall(r"^- \*\*([^*]+)\*\*: ", section, re.M) for section in sections]
    # The first of three sections is short.
    assert [len(terms) > 20 for terms in terms_of_sections] == [False, True, True]
    for terms in terms_of_sections:
        assert terms == sorted(set(terms), key=str.lower)


def _quotations() -> list[tuple[str, str]]:
    """The code that the page for contributors shows, each with the file that it is from."""
    page = (DOCS / "contributing.md").read_text(encoding="utf-8")
    return re.findall(r"^ *`([\w./-]+)`:\n\n *```\w+\n(.+?)\n *```$", page, re.M | re.S)


def _lines(text: str) -> str:
    """The lines of a text that are not blank, without their indentation."""
    return "".join(f"{line.strip()}\n" for line in text.splitlines() if line.strip())


@pytest.mark.parametrize(("name", "text"), _quotations(), ids=[name for name, _ in _quotations()])
def test_quoted_code_is_in_the_file_that_the_page_names(name: str, text: str) -> None:
    remaining_lines = _lines((ROOT / name).read_text(encoding="utf-8"))
    for part in re.split(r"^ *\.\.\.$", text, flags=re.M):
        assert _lines(part) in remaining_lines
        # The next part comes after this one.
        if part.strip():
            remaining_lines = remaining_lines.partition(_lines(part))[2]


def test_the_page_about_the_architecture_has_every_table() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| (.+) \| `persistence/tables/.+ \|$", page, re.M)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(metadata.tables)


def test_the_page_about_limits_has_the_maximum_sizes_of_batches() -> None:
    page = (DOCS / "limits.md").read_text(encoding="utf-8")
    events_sentence = re.search(
        r"^- \*\*Events of a call:\*\* (\d+) of `trackEvents`, (\d+) of `trackEventsAsync`\.", page, re.M
    )
    documents_sentence = re.search(r"^- \*\*Documents of a call\*\* of `batchUpsertDocuments`: (\d+)\.", page, re.M)
    assert events_sentence is not None
    assert documents_sentence is not None
    assert [int(number) for number in (*events_sentence.groups(), *documents_sentence.groups())] == [
        _max_items("events", "TrackRequest", "events"),
        _max_items("events", "TrackAsyncRequest", "events"),
        _max_items("content", "ContentDocumentBatch", "documents"),
    ]


def _max_items(component: str, schema: str, field: str) -> int:
    """The maximum size of a list in a request, as the OpenAPI documents have it."""
    document = yaml.safe_load((ROOT / "openapi" / "components" / f"{component}.yaml").read_text(encoding="utf-8"))
    max_items: int = document["schemas"][schema]["properties"][field]["maxItems"]
    return max_items


def test_the_drawing_of_an_order_has_all_transitions_and_no_others() -> None:
    drawing = (DOCS / "images" / "life-of-an-order.svg").read_text(encoding="utf-8")
    arrows = re.findall(r'data-edge="(\S+) (\S+)"', drawing)
    assert len(arrows) == 8
    assert set(arrows) == {
        (status, next_status) for status, successors in TRANSITIONS.items() for next_status in successors
    }
