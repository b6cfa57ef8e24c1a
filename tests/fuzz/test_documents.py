"""Both documents, all checks, against the running server: a short run. `tox -e fuzz` runs the long ones."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import openapi
from tests.fuzz.conftest import RunningServer
from tests.fuzz.runs import Run, findings, run

OPTIONS = ("--max-examples", "6", "--seed", "1")


@pytest.fixture(scope="module")
def runs(running_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Run]:
    """A run over each document, at the same time, each in an organization of its own."""
    directory: Path = tmp_path_factory.mktemp("runs")
    worlds = {surface: running_server.new_world() for surface in openapi.SURFACES}
    with ThreadPoolExecutor(len(worlds)) as threads:
        running = [
            threads.submit(run, surface, running_server.base_url, world, directory, *OPTIONS)
            for surface, world in worlds.items()
        ]
        return {each.surface: each for each in (future.result() for future in running)}


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_nothing_is_found(runs: Mapping[str, Run], surface: str) -> None:
    assert runs[surface].exit_code == 0, findings(runs[surface])
    assert not runs[surface].failed_checks


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_every_operation_succeeds_at_least_once(runs: Mapping[str, Run], surface: str) -> None:
    print(runs[surface].table())
    assert not runs[surface].unreached, runs[surface].table()


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_every_phase_runs(runs: Mapping[str, Run], surface: str) -> None:
    # Without scenarios of the last one the links between operations were not followed.
    assert all(runs[surface].scenarios[phase] for phase in ("examples", "coverage", "fuzzing", "stateful"))


def test_the_server_logged_no_error_and_kept_its_ledgers(
    runs: Mapping[str, Run], running_server: RunningServer
) -> None:
    assert not running_server.errors()
    assert running_server.verify() == "The ledger is sound.\n"
