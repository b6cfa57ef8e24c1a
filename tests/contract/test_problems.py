"""The documented problem types are the ones that the product returns."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module

import pytest

import domain
import openapi
from domain.problems import STATUS_OF_KIND, Conflict, Refusal
from tests.contract.documents import problem_types

# The types that only the HTTP layer returns, with their statuses.
PROTOCOL = {
    "/problems/method-not-allowed": 405,
    "/problems/request-timeout": 408,
    "/problems/not-acceptable": 406,
    "/problems/payload-too-large": 413,
    "/problems/uri-too-long": 414,
    "/problems/unsupported-media-type": 415,
    "/problems/unavailable": 503,
}


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


def _status_of_refusals() -> dict[str, int]:
    return {f"/problems/{refusal.slug}": STATUS_OF_KIND[refusal.kind] for refusal in refusals()}


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_every_refusal_is_documented_with_its_status(surface: str) -> None:
    assert problem_types(openapi.bundle(surface)) == _status_of_refusals() | PROTOCOL
