"""The files and commands on the page for QA engineers reach every operation and find nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import openapi
from handlers.messages.validation import SERVER_PATTERN
from tests.contract.documents import Document, DocumentedOperation, body_contents, operations, reachable_schemas
from tests.fuzz.conftest import RunningServer
from tests.fuzz.runs import Run, read_report

PAGE = Path(__file__).parents[2] / "docs" / "qa.md"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
# The numbers of the blocks without a language, and of those in sh.
_CREATE, _RESET = 0, 1
_ADDRESS, _SHORT, _LONG, _SEQUENCES = 0, 1, 2, 3


def blocks(language: str) -> list[str]:
    """The blocks of the page in a language; without one, the commands of the operator."""
    return [text for kind, text in _BLOCK.findall(PAGE.read_text(encoding="utf-8")) if kind == language]


class Bench:
    """A folder with the files of the page, and the variables that it asks for."""

    def __init__(self, server: RunningServer, folder: Path, surface: str) -> None:
        self._server, self._folder, self._surface, self._organization_id = server, folder, surface, ""
        [configuration], [script] = blocks("toml"), blocks("python")
        (folder / "base.toml").write_text(configuration)
        (folder / "prepare.py").write_text(script)
        sample_command, token_command = blocks("")[_CREATE].splitlines()
        [self._organization_id] = re.findall(r"^Organization (\d+) has now", self.operate(sample_command))
        self._token = self.operate(token_command)

    def operate(self, command: str) -> str:
        """Run a command of the operator for this organization instead of number 2; return its output."""
        arguments = [self._organization_id if argument == "2" else argument for argument in command.split()[1:]]
        return self._server.loyalty(*arguments)

    def run(self, commands: str) -> None:
        """Run the commands of a block by a shell that ends with the first that fails."""
        variables = {
            "API": self._server.base_url,
            "DOCUMENT": self._surface,
            "ORGANIZATION": self._organization_id,
            "TOKEN": self._token.strip(),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }
        assert set(re.findall(r"export (\w+)=", blocks("sh")[_ADDRESS])) <= variables.keys()
        process = subprocess.run(
            ["bash", "-eu", "-c", commands],
            env={**os.environ, **variables},
            cwd=self._folder,
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, "\n".join((process.stdout[-20_000:], process.stderr))

    def report(self) -> Run:
        """The run that the report of the tool describes."""
        [path] = (self._folder / "reports").glob("*.ndjson")
        return read_report(self._surface, path)


def run_all(server: RunningServer, folder: Path, *commands: str) -> list[Bench]:
    """Run commands of the page for each document in an organization of its own.

    Check that they reach every operation and find nothing; return the benches.
    """
    benches = []
    for surface in openapi.SURFACES:
        (folder / surface).mkdir()
        benches.append(Bench(server, folder / surface, surface))
    with ThreadPoolExecutor(len(benches)) as threads:
        list(threads.map(lambda bench: bench.run("\n".join(commands)), benches))
    for bench in benches:
        assert not bench.report().unreached, bench.report().table()
        assert not bench.report().failed_checks
    assert not server.errors()
    return benches


@pytest.mark.fuzz
def test_the_commands_of_the_page_find_nothing_and_reach_every_operation(
    running_server: RunningServer, tmp_path: Path
) -> None:
    bench = run_all(running_server, tmp_path, _with_one_example(blocks("sh")[_SHORT]))[0]
    # After the commands that reset the organization, it can be prepared again.
    for command in blocks("")[_RESET].splitlines():
        bench.operate(command)
    bench.run(_preparing_command())


def test_the_page_allows_refusals_where_the_server_has_a_stricter_pattern_than_the_document() -> None:
    [configuration] = blocks("toml")
    rules = [rule for rule in tomllib.loads(configuration)["operations"] if "400" in _statuses(rule)]
    lenient_ids = {name for rule in rules for name in rule["include-operation-id"]}
    stricter_ids = {
        operation.operation_id
        for document in map(openapi.bundle, openapi.SURFACES)
        for operation in operations(document)
        if _has_stricter_pattern(document, operation)
    }
    assert {"createMember", "createMembers", "updateMember"} <= stricter_ids <= lenient_ids


def test_the_sequences_of_the_page_create_campaigns_and_add_actions_to_them(
    running_server: RunningServer, tmp_path: Path
) -> None:
    bench = Bench(running_server, tmp_path, "administration")
    commands = blocks("sh")[_SEQUENCES]
    assert "--max-examples 50 " in commands
    bench.run("\n".join((_preparing_command(), commands.replace("--max-examples 50 ", "--max-examples 5 --seed 1 "))))
    report = bench.report()
    successful_operations = {name for name in report.operations.values() if name not in report.unreached}
    assert successful_operations == {"createCampaign", "createAction", "getAction"}, report.table()
    assert not report.failed_checks


@pytest.mark.fuzz
def test_the_long_command_of_the_page_finds_nothing(running_server: RunningServer, tmp_path: Path) -> None:
    run_all(running_server, tmp_path, _preparing_command(), blocks("sh")[_LONG])


def _with_one_example(commands: str) -> str:
    """Generate fewer examples of each operation than the page does; those of the document are all sent."""
    assert "--max-examples 3 " in commands
    return commands.replace("--max-examples 3 ", "--max-examples 1 ")


def _preparing_command() -> str:
    """The first command of the page's runs, which creates the records that they need."""
    return blocks("sh")[_SHORT].splitlines()[0]


def _statuses(rule: dict[str, Any]) -> list[str]:
    """The responses to valid requests that a rule of the configuration allows."""
    return rule.get("checks", {}).get("positive_data_acceptance", {}).get("expected-statuses", [])


def _has_stricter_pattern(document: Document, operation: DocumentedOperation) -> bool:
    """True if the server has a pattern of its own for a text in the body of an operation."""
    roots = [(("body",), content["schema"]) for content in body_contents(document, operation).values()]
    return any(SERVER_PATTERN in schema for _, schema in reachable_schemas(document, roots))
