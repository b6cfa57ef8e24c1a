"""The page of problems describes each problem type once, with an example of a response."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import openapi
from tests.contract.documents import problem_types
from tests.contract.schemas import faults
from tests.contract.test_problems import title_and_status_of_types

PAGE = Path(openapi.__file__).parents[1] / "docs" / "problems.md"
SECTION = re.compile(r"^### `(?P<type>[^`]+)`\n\n(?P<text>.+?)\n\n```json\n(?P<example>.+?)\n```\n", re.M | re.S)


def sections() -> dict[str, tuple[str, Any]]:
    """The description and the example of each problem type on the page, by the type; check that each is there once."""
    matches = list(SECTION.finditer(PAGE.read_text(encoding="utf-8")))
    assert len(matches) == len({section["type"] for section in matches})
    return {section["type"]: (section["text"], json.loads(section["example"])) for section in matches}


def test_the_page_describes_exactly_the_problem_types() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^### `([^`]+)`$", page, re.M) == list(sections())
    assert sections().keys() == problem_types(openapi.bundle("administration")).keys()


def test_examples_are_problems_with_the_status_of_the_type() -> None:
    document = openapi.bundle("administration")
    statuses = problem_types(document)
    for name, (text, example) in sections().items():
        is_item_problem = "Only as the `error` of" in text
        schema = "ItemProblem" if is_item_problem else "Problem"
        assert faults(document, {"$ref": f"#/components/schemas/{schema}"}, example) == [], name
        assert (example["type"], example["status"]) == (name, statuses[name])
        assert ("instance" in example) != is_item_problem


def test_examples_have_the_title_of_the_type() -> None:
    examples = {name: (example["title"], example["status"]) for name, (_, example) in sections().items()}
    assert examples == title_and_status_of_types()


def test_the_index_links_to_each_type_under_its_status() -> None:
    page = PAGE.read_text(encoding="utf-8")
    _, _, index = page.partition("\n## All types\n")
    index, _, _ = index.partition("\n## ")
    entries = re.findall(r"^- \*\*(\d{3})\*\*: (.+?)(?=\n- |\Z)", index.strip(), re.M | re.S)
    types_by_status: dict[str, list[str]] = {}
    for name, (_, example) in sorted(sections().items()):
        types_by_status.setdefault(str(example["status"]), []).append(name.removeprefix("/problems/"))
    assert {
        status: ", ".join(f"[`{slug}`](#problems{slug})" for slug in slugs) for status, slugs in types_by_status.items()
    } == {status: " ".join(links.split()) for status, links in entries}
    assert [status for status, _ in entries] == sorted(types_by_status)


def test_types_are_under_the_heading_of_their_status() -> None:
    status = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            status = line.removeprefix("## ")[:3]
        elif line.startswith("### "):
            problem_type = line.removeprefix("### ").strip("`")
            _, example = sections()[problem_type]
            assert str(example["status"]) == status
