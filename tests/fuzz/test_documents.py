"""Both documents, all checks, against the running server: a short run, and long ones by `tox -e fuzz`.

FUZZ_SEEDS has the seeds of the long runs, one run for each (1,2,3), and FUZZ_SECONDS how long each takes (300).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import openapi
from tests.fuzz.conftest import RunningServer
from tests.fuzz.runs import Run, Target, run_completely

SECONDS = int(os.environ.get("FUZZ_SECONDS", "300"))
SEEDS = os.environ.get("FUZZ_SEEDS", "1,2,3").split(",")

Runs = Mapping[str, Run]


def run_both(
    server: RunningServer, directory: Path, *options: str, follow: tuple[str, ...], is_short: bool = False
) -> Runs:
    """A run over each document, at the same time, each in an organization of its own; return the runs by surface.

    `options` are those of the run over each operation, `follow` those of the run that follows links.
    """
    targets = {
        surface: Target(server.base_url, server.new_world(), directory, is_short) for surface in openapi.SURFACES
    }
    with ThreadPoolExecutor(len(targets)) as threads:
        futures = [
            threads.submit(run_completely, surface, target, *options, follow=follow)
            for surface, target in targets.items()
        ]
        return {finished_run.surface: finished_run for finished_run in (future.result() for future in futures)}


@pytest.fixture(scope="module")
def short_runs(running_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A run over each document with few examples of each operation."""
    directory = tmp_path_factory.mktemp("runs")
    seed = ("--seed", "1")
    return run_both(running_server, directory, "--max-examples", "1", *seed, follow=seed, is_short=True)


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_a_short_run_finds_nothing(short_runs: Runs, surface: str) -> None:
    assert short_runs[surface].exit_code == 0, short_runs[surface].findings()
    assert not short_runs[surface].failed_checks


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_every_operation_succeeds_at_least_once(
    short_runs: Runs, surface: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\n{short_runs[surface].summary()}")
    assert not short_runs[surface].unreached, short_runs[surface].table()


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_every_operation_is_sent_valid_and_invalid_data(short_runs: Runs, surface: str) -> None:
    assert short_runs[surface].operations_without("positive") == []
    assert short_runs[surface].operations_without("negative") == []


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_every_phase_runs(short_runs: Runs, surface: str) -> None:
    run = short_runs[surface]
    for phase in ("examples", "coverage", "fuzzing", "stateful"):
        assert run.scenarios[phase] > 0, phase
    # A short run follows most of the links.
    assert len(run.followed_links) >= run.links * 0.8


def test_short_runs_leave_no_error_in_the_log_and_a_sound_ledger(
    short_runs: Runs, running_server: RunningServer
) -> None:
    assert not running_server.errors()
    assert running_server.verify().endswith("The ledger is sound.\n")


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", SEEDS)
def test_a_long_run_finds_nothing(
    running_server: RunningServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: str
) -> None:
    follow = ("--max-examples", "100", "--seed", seed, "--max-time", str(SECONDS // 15))
    options = ("--max-examples", "25", "--seed", seed, "--max-time", str(SECONDS * 2 // 3), "--max-response-time", "10")
    runs = run_both(running_server, tmp_path, *options, follow=follow)
    with capsys.disabled():
        print(f"\nseed {seed}", *(run.table() for run in runs.values()), sep="\n")
    for run in runs.values():
        assert run.exit_code == 0, run.findings()
        assert not run.failed_checks
        assert not run.unreached, run.table()
        assert len(run.followed_links) >= run.links * 0.8, run.summary()
    assert not running_server.errors()
    assert running_server.verify().endswith("The ledger is sound.\n")
