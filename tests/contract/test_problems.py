"""The documented problem types are the ones that the product returns."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import domain
import openapi
from domain.problems import STATUS_OF_KIND, Conflict, Refusal
from handlers.http.problems import PROTOCOL_PROBLEMS
from tests.contract.documents import problem_types


def refusals() -> list[type[Refusal]]:
    """All refusals of the domain, but not their base classes, which are never returned themselves."""
    for module in pkgutil.walk_packages(domain.__path__, "domain."):
        import_module(module.name)
    return [
        refusal for refusal in _below(Refusal) if refusal is not Conflict and refusal.__module__.startswith("domain.")
    ]


def _below(base: type[Refusal]) -> Iterator[type[Refusal]]:
    for subclass in base.__subclasses__():
        yield subclass
        yield from _below(subclass)


def title_and_status_of_types() -> dict[str, tuple[str, int]]:
    """The title and status of each problem type that the server returns."""
    return {
        **{f"/problems/{slug}": (title, status) for status, (slug, title) in PROTOCOL_PROBLEMS.items()},
        **{f"/problems/{refusal.slug}": (refusal.title, STATUS_OF_KIND[refusal.kind]) for refusal in refusals()},
    }


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_every_problem_type_is_documented_with_its_status(surface: str) -> None:
    expected_statuses = {name: status for name, (_, status) in title_and_status_of_types().items()}
    assert problem_types(openapi.bundle(surface)) == expected_statuses


def test_a_status_has_the_title_of_the_refusals_of_its_type() -> None:
    titles = {refusal.slug: refusal.title for refusal in refusals()}
    for slug, title in PROTOCOL_PROBLEMS.values():
        # Some types have no refusal of the domain.
        assert titles.get(slug, title) == title


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_examples_of_problems_have_the_title_and_status_of_their_type(surface: str) -> None:
    titles_and_statuses = title_and_status_of_types()
    examples = list(_problems_in(openapi.bundle(surface)))
    assert len(examples) > 10
    assert [
        problem
        for problem in examples
        if (problem["title"], problem["status"]) != titles_and_statuses.get(problem["type"])
    ] == []


def _problems_in(value: Any) -> Iterator[dict[str, Any]]:
    """The problems in the examples of a document."""
    if isinstance(value, dict):
        if str(value.get("type")).startswith("/problems/") and "title" in value:
            yield value
        for part in value.values():
            yield from _problems_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from _problems_in(part)
