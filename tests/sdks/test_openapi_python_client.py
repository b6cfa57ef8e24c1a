"""The clients of openapi-python-client: they make the calls of the journey, with decimals as floats."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.sdks.running import FIFTEEN_DIGITS, JOURNEYS, SURFACES, Running, expected_results, python, run

JOURNEY = JOURNEYS / "openapi_python_client.py"


@pytest.fixture(scope="module")
def clients(running_server: Running, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of both clients."""
    folder = tmp_path_factory.mktemp("openapi-python-client")
    # Formatting the code makes it nicer to read and takes long.
    (folder / "config.yaml").write_text("post_hooks: []\n")
    for surface in SURFACES:
        arguments = ("--meta", "none", "--config", "config.yaml", "--output-path", f"loyalty_{surface}_client")
        path = ("--path", running_server.document(surface))
        output = run(python("-m", "openapi_python_client", "generate", *path, *arguments), cwd=folder)
        assert "warning" not in output.lower(), output
    return folder


@pytest.mark.sdks
def test_the_clients_make_the_journey(running_server: Running, clients: Path) -> None:
    results = running_server.journey(python(JOURNEY), cwd=clients, decimal=FIFTEEN_DIGITS, PYTHONPATH=str(clients))
    assert results == expected_results(decimal=FIFTEEN_DIGITS)


@pytest.mark.sdks
def test_the_clients_and_the_journey_are_typed(clients: Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("needs mypy")
    packages = [f"loyalty_{surface}_client" for surface in SURFACES]
    run(python("-m", "mypy", "--strict", "--no-incremental", *packages, JOURNEY), cwd=clients, MYPYPATH=str(clients))
