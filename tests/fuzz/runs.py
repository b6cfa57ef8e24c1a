"""Runs Schemathesis over one document against a running server, and reads what happened from its report."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openapi
from tests.fuzz.world import World

ROOT = Path(__file__).parents[2]
CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
_METHODS = ("get", "post", "put", "patch", "delete")

Operation = tuple[str, str]


@dataclass
class Run:
    """What one run did: the statuses each operation answered, and everything that was found."""

    surface: str
    exit_code: int
    output: str
    operations: Mapping[Operation, str]
    statuses: dict[Operation, Counter[int]] = field(default_factory=dict)
    # operationId or "stateful" -> names of the checks that failed
    failed_checks: dict[str, set[str]] = field(default_factory=dict)
    scenarios: Counter[str] = field(default_factory=Counter)
    cases: int = 0

    @property
    def unreached(self) -> list[str]:
        """The operations that never answered a 2xx."""
        return [name for key, name in self.operations.items() if not self._successes(key)]

    @property
    def links(self) -> tuple[int, int]:
        """How many links between operations were followed, and how many there are."""
        told = re.search(r"API Links: +(\d+) covered / (\d+) selected", self.output)
        return (int(told[1]), int(told[2])) if told else (0, 0)

    def summary(self) -> str:
        """One line of figures."""
        reached = len(self.operations) - len(self.unreached)
        return (
            f"{self.surface}: {reached} of {len(self.operations)} operations reached 2xx, {self.cases} requests,"
            f" {self.links[0]} of {self.links[1]} links followed in {self.scenarios['stateful']} scenarios"
        )

    def table(self) -> str:
        """How many requests of each operation were answered how."""
        lines = [self.summary()]
        for key, name in self.operations.items():
            counts = self.statuses.get(key, Counter())
            shown = ", ".join(f"{status}: {count}" for status, count in sorted(counts.items()))
            lines.append(f"  {'  ' if self._successes(key) else '! '}{name:32} {shown}")
        return "\n".join(lines)

    def _successes(self, key: Operation) -> int:
        return sum(count for status, count in self.statuses.get(key, Counter()).items() if 200 <= status < 300)


def run(surface: str, base_url: str, world: World, directory: Path, *options: str) -> Run:
    """Run all phases over a surface's document; `options` are those of `schemathesis run`."""
    document = _with_plain_bearer(openapi.bundle(surface))
    directory.mkdir(parents=True, exist_ok=True)
    source, report = directory / f"{surface}.json", directory / f"{surface}.ndjson"
    source.write_text(json.dumps(document))
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIGURATION), "run", str(source)]
    command += ["--url", base_url, "--report", "ndjson", "--report-ndjson-path", str(report), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FUZZ_TOKEN": world.token, "FUZZ_WORLD": world.to_json()}
    ended = subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True)
    operations = dict(_operations(document))
    found = Run(surface, ended.returncode, ended.stdout + ended.stderr, operations)
    with report.open() as lines:
        _read(found, (json.loads(line) for line in lines))
    return found


def _with_plain_bearer(document: dict[str, Any]) -> dict[str, Any]:
    """The document with its tokens declared as HTTP bearer: of OAuth 2.0 Schemathesis checks nothing."""
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for item in document["paths"].values():
        for method in _METHODS:
            if method in item and item[method].get("security"):
                item[method]["security"] = [{"token": []}]
    return document


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[Operation, str]]:
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                yield (method.upper(), path), item[method]["operationId"]


def _read(found: Run, events: Iterator[Mapping[str, Any]]) -> None:
    for event in events:
        (name, content), *_ = event.items()
        if name == "ScenarioFinished":
            found.scenarios[content["phase"]] += 1
            recorder = content["recorder"]
            cases = {identity: case["value"] for identity, case in recorder.get("cases", {}).items()}
            for identity, interaction in recorder.get("interactions", {}).items():
                answer = interaction.get("response")
                if answer is not None and identity in cases:
                    key = cases[identity]["method"], cases[identity]["path"]
                    found.cases += 1
                    found.statuses.setdefault(key, Counter())[answer["status_code"]] += 1
            for identity, checks in recorder.get("checks", {}).items():
                key = cases[identity]["method"], cases[identity]["path"]
                failed = {check["name"] for check in checks if check["status"] == "failure"}
                if failed:
                    found.failed_checks.setdefault(found.operations.get(key, str(key)), set()).update(failed)


def findings(run: Run, longest: int = 20_000) -> str:
    """The part of the output that tells failures, warnings and errors, with a command that repeats each."""
    start = run.output.find("=== FAILURES ===")
    return run.output[max(start, 0) :][:longest]
