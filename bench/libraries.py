"""Routing, parameters and rates, compared with the libraries that would replace them: the time of a call in one run.

    python -m bench.libraries

Routing and parameters are measured on the served documents, rates on one key, in alternating rounds; the fastest
round of each counts, which other work of the machine disturbs least. The libraries are bare: what would have to be
built around them is left out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from connexion.lifecycle import ConnexionRequest
from connexion.uri_parsing import OpenAPIURIParser
from connexion.validators.parameter import ParameterValidator
from pyrate_limiter import Duration, MultiprocessBucket, RateItem
from pyrate_limiter import Rate as LibraryRate
from starlette.routing import Match, Route, Router
from werkzeug.routing import Map, Rule

import openapi
from handlers.http.rates import Rates
from handlers.http.request_plans import ParameterPlan
from handlers.http.routing import SegmentTree
from handlers.messages.validation import Schemas
from handlers.setting_values import Rate
from openapi import METHODS

ROUNDS = 25
CALLS = 200
# Paths from the beginning, the middle and the end of the OpenAPI documents.
PATHS = (
    ("POST", "/v2/events/track"),
    ("GET", "/v2/members/ana"),
    ("GET", "/v2/organizations/1/campaigns/7"),
    ("GET", "/v2/organizations/1/coupon-books/7/coupons"),
)
QUERY = b"limit=20&page=2"


def _templates() -> list[tuple[str, str]]:
    """Each path and method of the OpenAPI documents."""
    return [
        (f"/v2{path}", method.upper())
        for surface in openapi.SURFACES
        for path, item in openapi.bundle(surface)["paths"].items()
        for method in METHODS
        if method in item
    ]


def routing() -> dict[str, Callable[[], Any]]:
    """Finding the operations of the four `PATHS`."""
    tree: SegmentTree[str] = SegmentTree()
    router, rules = Router(), []
    for number, (template, method) in enumerate(_templates()):
        tree.add(template, method, template)
        router.routes.append(Route(template, endpoint=_endpoint, methods=[method]))
        rules.append(Rule(template.replace("{", "<").replace("}", ">"), endpoint=str(number), methods=[method]))
    adapter = Map(rules).bind("localhost")

    def by_starlette(method: str, path: str) -> None:
        scope = {"type": "http", "path": path, "method": method, "root_path": ""}
        for route in router.routes:
            if route.matches(scope)[0] is Match.FULL:
                return
        raise LookupError(path)

    def by_tree(method: str, path: bytes) -> None:
        match = tree.find(path)
        assert match is not None
        assert method in match[0]

    raw_paths = [(method, path.encode()) for method, path in PATHS]
    return {
        "ours": lambda: [by_tree(method, path) for method, path in raw_paths],
        "werkzeug": lambda: [adapter.match(path, method) for method, path in PATHS],
        "starlette": lambda: [by_starlette(method, path) for method, path in PATHS],
    }


async def _endpoint(request: Any) -> Any:
    raise NotImplementedError


def parameters() -> dict[str, Callable[[], Any]]:
    """Reading and validating the query of `listCampaigns`."""
    document = openapi.bundle("administration")
    schemas = Schemas("administration", document)
    declarations = [
        schemas.resolve(parameter)
        for parameter in document["paths"]["/organizations/{organizationId}/campaigns"]["get"]["parameters"]
    ]
    query = [
        {**parameter, "schema": dict(schemas.resolve(parameter["schema"]))}
        for parameter in declarations
        if parameter["in"] == "query"
    ]
    plan = ParameterPlan([parameter for parameter in declarations if parameter["in"] == "query"], schemas, "bench")
    parser = OpenAPIURIParser(query, {})
    validator = ParameterValidator(query, parser, strict_validation=True)
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": QUERY, "headers": [], "path_params": {}}

    def by_connexion() -> None:
        validator.validate_request(ConnexionRequest(dict(scope), uri_parser=parser))

    def by_plan() -> None:
        faults: list[Any] = []
        plan.read_query(QUERY, faults)
        assert not faults

    return {"ours": by_plan, "connexion": by_connexion}


def rates() -> dict[str, Callable[[], Any]]:
    """Counting a call of one key, in memory that processes share."""
    counts, rate = Rates(), Rate(1_000_000, 1_000)
    bucket = MultiprocessBucket.init([LibraryRate(1_000_000, 1_000 * Duration.SECOND)])
    return {
        "ours": lambda: counts.take("token", rate),
        "pyrate-limiter": lambda: bucket.put(RateItem("token", time.monotonic_ns() // 1_000_000)),
    }


def _microseconds(run: Callable[[], Any]) -> float:
    """The wall time of a call: a library that asks another process waits for it."""
    begin = time.perf_counter()
    for _ in range(CALLS):
        run()
    return (time.perf_counter() - begin) / CALLS * 1e6


def main() -> None:
    """Measure everything, and print a table."""
    logging.disable(logging.CRITICAL)
    print("| what | by | time | of ours |\n|---|---|---|---|")
    for what in (routing, parameters, rates):
        runs = what()
        results: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(ROUNDS):
            for name, run in runs.items():
                results[name].append(_microseconds(run))
        fastest = {name: min(times) for name, times in results.items()}
        for name, time_of_call in fastest.items():
            print(f"| {what.__name__} | {name} | {time_of_call:.1f} us | {time_of_call / fastest['ours']:.1f} |")


if __name__ == "__main__":
    main()
