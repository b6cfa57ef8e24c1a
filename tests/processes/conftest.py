from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from persistence import embedded
from tests.processes.fleet import wait_until


@pytest.fixture
def home(temporary_directory: Path) -> Iterator[Path]:
    """A home that does not exist yet, in a directory of its own; its database has ended when the test has."""
    directory = Path(tempfile.mkdtemp(dir=temporary_directory))
    directory.chmod(0o755)
    yield directory / "home"
    if embedded.describe(directory / "home"):
        wait_until(lambda: _is_stopped(directory / "home"))


def _is_stopped(home: Path) -> bool:
    """Stop what killed processes have left running; the last to leave does, and they take a moment to be gone."""
    with embedded.server(home):
        pass
    return not embedded.describe(home).is_running
