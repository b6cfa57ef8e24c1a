"""Runs Schemathesis over one document against a running server, and reads its report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openapi
from tests.fuzz.world import World

ROOT = Path(__file__).parents[2]
CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
# Between the outputs of several runs.
_NEXT = "\n##### "
# The longest array of different items that a short run generates.
MAX_SET_SIZE = 100
_METHODS = ("get", "post", "put", "patch", "delete")

Operation = tuple[str, str]


@dataclass
class Run:
    """The results of one run or of several: the statuses of each operation's responses, and all findings."""

    surface: str
    operations: Mapping[Operation, str]
    # The number of links that the document declares.
    links: int
    exit_code: int = 0
    output: str = ""
    statuses: dict[Operation, Counter[int]] = field(default_factory=dict)
    # The modes of the data sent to each operation: positive, which is valid, and negative.
    modes: dict[Operation, set[str]] = field(default_factory=dict)
    # operationId -> names of the checks that failed
    failed_checks: dict[str, set[str]] = field(default_factory=dict)
    scenarios: Counter[str] = field(default_factory=Counter)
    followed_links: set[str] = field(default_factory=set)
    requests: int = 0

    @property
    def unreached(self) -> list[str]:
        """The operations that never responded with a 2xx."""
        return [name for key, name in self.operations.items() if not self._successes(key)]

    def operations_without(self, mode: str) -> list[str]:
        """The operations that were sent no data of a mode."""
        return [name for key, name in self.operations.items() if mode not in self.modes.get(key, ())]

    def summary(self) -> str:
        """One line of figures."""
        count = len(self.operations) - len(self.unreached)
        return (
            f"{self.surface}: {count} of {len(self.operations)} operations reached 2xx in {self.requests} requests,"
            f" {len(self.followed_links)} of {self.links} links followed in {self.scenarios['stateful']} scenarios"
        )

    def table(self) -> str:
        """The numbers of responses of each operation, by status."""
        lines = [self.summary()]
        for key, name in self.operations.items():
            counts = self.statuses.get(key, Counter())
            counts_by_status = ", ".join(f"{status}: {count}" for status, count in sorted(counts.items()))
            lines.append(f"  {'  ' if self._successes(key) else '! '}{name:32} {counts_by_status}")
        return "\n".join(lines)

    def findings(self, longest: int = 20_000) -> str:
        """The failures, warnings and errors in the output, with a command that repeats each."""
        parts = [
            part[max(part.find("=== FAILURES"), 0) :] for part in self.output.split(_NEXT) if "= SUMMARY =" in part
        ]
        return "\n".join(parts)[:longest] or self.output[-longest:]

    def _successes(self, key: Operation) -> int:
        return sum(count for status, count in self.statuses.get(key, Counter()).items() if 200 <= status < 300)


@dataclass(frozen=True)
class Target:
    """A server to run against, one of its organizations, and a directory for the files of runs."""

    base_url: str
    world: World
    directory: Path
    # A short run skips similar boundary cases, follows few chains of links, and sends no arrays of a thousand items.
    is_short: bool = False


def run(surface: str, target: Target, *options: str) -> Run:
    """Run Schemathesis over a surface's document with more options of `schemathesis run`; return the results."""
    return _run(surface, target, {"run": options})


def run_completely(surface: str, target: Target, *options: str, follow: tuple[str, ...]) -> Run:
    """Run all phases over all operations: first each operation separately, then the links with the options `follow`.

    Returns the common results.

    A run follows only the links of its first few operations, so each operation at which links begin has its own run.
    """
    runs: dict[str, Sequence[str]] = {"single": ("--phases", "examples,coverage,fuzzing", *options)}
    document = fuzzed(surface)
    for name, members in linked_operations(document).items():
        chains = ("--max-examples", str(_count_chains(document, members))) if target.is_short else ()
        runs[f"from-{name}"] = ("--phases", "stateful", *_including(members), *follow, *chains)
    return _run(surface, target, runs)


def _including(names: Sequence[str]) -> list[str]:
    """The options that limit a run to some operations."""
    return [option for name in names for option in ("--include-operation-id", name)]


def _count_chains(document: Mapping[str, Any], members: Sequence[str]) -> int:
    """How many chains of links a short run follows among some operations: one for each link, but 2 to 5."""
    links = sum(
        len(response.get("links", {}))
        for item in document["paths"].values()
        for method in item.keys() & _METHODS
        if item[method]["operationId"] in members
        for response in item[method]["responses"].values()
    )
    return min(max(links, 2), 5)


def fuzzed(surface: str) -> dict[str, Any]:
    """The document without the operations of the test clock, which would affect the other requests."""
    document = deepcopy(openapi.bundle(surface))
    paths = {path: item for path, item in document["paths"].items() if "/test-clock" not in path}
    return {**document, "paths": paths}


def linked_operations(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Operations with links from but not to them -> all operations that links reach from there, itself included."""
    link_targets: dict[str, set[str]] = {}
    for item in document["paths"].values():
        for operation in (item[method] for method in _METHODS if method in item):
            responses = operation["responses"].values()
            link_targets[operation["operationId"]] = {
                link["operationId"] for response in responses for link in response.get("links", {}).values()
            }
    targets = {target for name, target_names in link_targets.items() for target in target_names if target != name}
    groups = {}
    for start in (name for name, target_names in link_targets.items() if target_names and name not in targets):
        reachable, pending = {start}, [start]
        while pending:
            new = link_targets[pending.pop()] - reachable
            reachable |= new
            pending.extend(new)
        groups[start] = sorted(reachable)
    return groups


def read_report(surface: str, report: Path) -> Run:
    """The run that a report over a surface's document describes."""
    report_run = _new(surface)
    with report.open() as lines:
        _read(report_run, (json.loads(line) for line in lines))
    return report_run


def _new(surface: str) -> Run:
    document = fuzzed(surface)
    operations = dict(_operations(document))
    responses_of_operations = [
        item[method]["responses"].values() for item in document["paths"].values() for method in item.keys() & _METHODS
    ]
    return Run(
        surface,
        operations,
        sum(len(response.get("links", {})) for responses in responses_of_operations for response in responses),
    )


def _run(surface: str, target: Target, runs: Mapping[str, Sequence[str]]) -> Run:
    """Run over a document once for the options of each name; returns the common results."""
    result, directory = _new(surface), target.directory / surface
    directory.mkdir(parents=True, exist_ok=True)
    source, list_of_runs = directory / "document.json", directory / "runs.json"
    document = _with_plain_bearer(fuzzed(surface))
    if target.is_short:
        _shorten_sets(document)
    source.write_text(json.dumps(document))
    common_arguments = (
        "--config-file",
        str(CONFIGURATION),
        "run",
        str(source),
        "--url",
        target.base_url,
        "--report",
        "ndjson",
    )
    reports = {name: directory / f"{name}.ndjson" for name in runs}
    outputs = {name: directory / f"{name}.log" for name in runs}
    runs_of_tool = [
        {
            "arguments": [*common_arguments, "--report-ndjson-path", str(reports[name]), *options],
            "output": str(outputs[name]),
        }
        for name, options in runs.items()
    ]
    list_of_runs.write_text(json.dumps(runs_of_tool))
    world = target.world
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FUZZ_TOKEN": world.token, "FUZZ_WORLD": world.to_json()}
    environment["FUZZ_URL"] = target.base_url
    environment |= {"FUZZ_SHORT": "yes"} if target.is_short else {}
    # Only the document with operations of partners uses their keys.
    environment |= {f"FUZZ_KEY_{partner.upper()}": key for partner, key in world.partner_keys.items()}
    command = [sys.executable, "-m", "tests.fuzz.tool", str(list_of_runs)]
    process = subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    result.exit_code = max(map(int, process.stdout.split()))
    for name in runs:
        result.output += f"{_NEXT}{name}\n{outputs[name].read_text()}"
        with reports[name].open() as lines:
            _read(result, (json.loads(line) for line in lines))
    return result


def _shorten_sets(node: Any) -> None:
    """Remove high maximums of arrays of different items, whose generation would take a fifth of a run."""
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _shorten_sets(child)
    if isinstance(node, dict) and node.get("uniqueItems") is True and node.get("maxItems", 0) > MAX_SET_SIZE:
        del node["maxItems"]


def _with_plain_bearer(document: dict[str, Any]) -> dict[str, Any]:
    """The document with its tokens declared as HTTP bearer, since Schemathesis does not check OAuth 2.0."""
    schemes = document["components"]["securitySchemes"]
    schemes["token"] = {"type": "http", "scheme": "bearer"}
    for item in document["paths"].values():
        for method in _METHODS:
            if method in item and "token" in next(iter(item[method].get("security", ())), ()):
                item[method]["security"] = [{"token": []}]
    return document


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[Operation, str]]:
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                yield (method.upper(), path), item[method]["operationId"]


def _read(result: Run, events: Iterator[Mapping[str, Any]]) -> None:
    for event in events:
        (name, content), *_ = event.items()
        if name != "ScenarioFinished":
            continue
        result.scenarios[content["phase"]] += 1
        recorder = content["recorder"]
        for identity, case in recorder.get("cases", {}).items():
            key = case["value"]["method"], case["value"]["path"]
            response = recorder.get("interactions", {}).get(identity, {}).get("response")
            if response is not None:
                result.requests += 1
                result.statuses.setdefault(key, Counter())[response["status_code"]] += 1
                if meta := case["value"].get("meta"):
                    result.modes.setdefault(key, set()).add(meta["generation"]["mode"])
            if case.get("is_transition_applied"):
                result.followed_links.add(case["transition"]["id"])
            checks = recorder.get("checks", {}).get(identity, ())
            failed_names = {check["name"] for check in checks if check["status"] == "failure"}
            if failed_names:
                result.failed_checks.setdefault(result.operations.get(key, str(key)), set()).update(failed_names)
