"""Both documents, all checks, against the running server: a short run, and long ones by `tox -e fuzz`.

FUZZ_SECONDS says how long each of the long runs takes (300), FUZZ_SEEDS with which seeds there are some (1,2,3).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import openapi
from tests.fuzz.conftest import RunningServer
from tests.fuzz.runs import Run, findings, run

SECONDS = os.environ.get("FUZZ_SECONDS", "300")
SEEDS = os.environ.get("FUZZ_SEEDS", "1,2,3").split(",")

Runs = Mapping[str, Run]


def both(server: RunningServer, directory: Path, *options: str) -> Runs:
    """A run over each document, at the same time, each in an organization of its own."""
    worlds = {surface: server.new_world() for surface in openapi.SURFACES}
    with ThreadPoolExecutor(len(worlds)) as threads:
        running = [
            threads.submit(run, surface, server.base_url, world, directory, *options)
            for surface, world in worlds.items()
        ]
        return {each.surface: each for each in (future.result() for future in running)}


@pytest.fixture(scope="module")
def short_runs(running_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return both(running_server, tmp_path_factory.mktemp("runs"), "--max-examples", "6", "--seed", "1")


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_nothing_is_found(short_runs: Runs, surface: str) -> None:
    assert short_runs[surface].exit_code == 0, findings(short_runs[surface])
    assert not short_runs[surface].failed_checks


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_every_operation_succeeds_at_least_once(
    short_runs: Runs, surface: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\n{short_runs[surface].summary()}")
    assert not short_runs[surface].unreached, short_runs[surface].table()


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_every_phase_runs(short_runs: Runs, surface: str) -> None:
    # Without scenarios of the last one the links between operations were not followed.
    assert all(short_runs[surface].scenarios[phase] for phase in ("examples", "coverage", "fuzzing", "stateful"))
    assert short_runs[surface].links[0]


def test_the_server_logged_no_error_and_kept_its_ledgers(short_runs: Runs, running_server: RunningServer) -> None:
    assert not running_server.errors()
    assert running_server.verify() == "The ledger is sound.\n"


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_found_at_length(
    running_server: RunningServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: str
) -> None:
    options = ("--max-examples", "25", "--seed", seed, "--max-time", SECONDS)
    runs = both(running_server, tmp_path, *options)
    with capsys.disabled():
        print(f"\nseed {seed}", *(each.table() for each in runs.values()), sep="\n")
    for each in runs.values():
        assert each.exit_code == 0, findings(each)
        assert not each.failed_checks
        assert not each.unreached, each.table()
        assert each.scenarios["stateful"]
    assert not running_server.errors()
    assert running_server.verify() == "The ledger is sound.\n"
