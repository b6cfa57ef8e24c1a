"""The runs find bugs of a server, each by the check that has to find it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.broken import BUGS
from tests.fuzz.conftest import RunningServer
from tests.fuzz.runs import Run, Target, run
from tests.fuzz.world import World
from tests.processes.loyalty import ROOT, environment, free_port, status

pytestmark = pytest.mark.fuzz

# Operations without a bug that are run along with the others.
WITHOUT_BUG = ("createCustomEventType", "getOrganization")


@pytest.fixture(scope="module")
def world(running_server: RunningServer) -> World:
    """An organization with records of every kind."""
    return running_server.new_world()


@pytest.fixture(scope="module")
def broken_url(running_server: RunningServer, world: World) -> Iterator[str]:
    """The address of a server with bugs, on the same database."""
    port = free_port()
    log = running_server.home.parent / "broken.log"
    command = [sys.executable, "-m", "gunicorn", "-k", "asgi", "--no-control-socket", "--bind", f"127.0.0.1:{port}"]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "tests.fuzz.broken:create()"],
            env=environment(running_server.home, FUZZ_TOKEN=world.token),
            cwd=ROOT,
            stdout=output,
            stderr=output,
        )
    deadline = time.monotonic() + 60
    while status(f"http://127.0.0.1:{port}/health/ready") != 200:
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.1)
    yield f"http://127.0.0.1:{port}/v2"
    process.terminate()
    process.wait(60)


@pytest.fixture(scope="module")
def broken_run(broken_url: str, world: World, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run over the operations with bugs and a few others."""
    target = Target(broken_url, world, tmp_path_factory.mktemp("broken"))
    names = [option for name in (*BUGS, *WITHOUT_BUG) for option in ("--include-operation-id", name)]
    return run("administration", target, "--max-examples", "4", "--seed", "1", *names)


@pytest.mark.parametrize("operation", BUGS)
def test_a_bug_is_found_by_its_check(broken_run: Run, operation: str) -> None:
    assert BUGS[operation].found_by in broken_run.failed_checks.get(operation, set()), broken_run.output[-5000:]


def test_no_operation_without_a_bug_fails_a_check(broken_run: Run) -> None:
    assert broken_run.exit_code == 1
    assert set(broken_run.failed_checks) == set(BUGS)


def test_a_token_that_is_refused_everywhere_fails_a_run(
    running_server: RunningServer, world: World, tmp_path: Path
) -> None:
    world_with_wrong_token = World.from_json(world.to_json().replace(world.token, "nobody"))
    options = ("--max-examples", "1", "--phases", "examples", "--include-operation-id", "listLedgers")
    refused_run = run("administration", Target(running_server.base_url, world_with_wrong_token, tmp_path), *options)
    # A refusal fails no check, but the operation never succeeds.
    assert refused_run.exit_code == 1, refused_run.output
    assert refused_run.unreached
    assert not refused_run.failed_checks
