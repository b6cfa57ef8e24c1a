"""The headings of pages in Markdown, as links name them."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
_HEADING = re.compile(r"^#{1,6} (.+)$", re.M)


def headings(page: Path) -> list[str]:
    """The headings of a page, without those in blocks of code."""
    return _HEADING.findall(re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S))


@lru_cache
def anchors(page: Path) -> set[str]:
    """The fragments that GitHub gives to the headings of a page."""
    titles = [re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", title) for title in headings(page)]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
