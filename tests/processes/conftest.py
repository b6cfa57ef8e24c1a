from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from persistence import embedded


@pytest.fixture
def home(temporary_directory: Path) -> Iterator[Path]:
    """A home that does not exist yet, in a directory of its own; its database has ended when the test has."""
    directory = Path(tempfile.mkdtemp(dir=temporary_directory))
    directory.chmod(0o755)
    yield directory / "home"
    if embedded.describe(directory / "home"):
        with embedded.server(directory / "home"):
            pass  # the last to leave stops what a killed process left running
        assert not embedded.describe(directory / "home").is_running
