from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from persistence import embedded, schema
from persistence.engine import create_engine
from tests.processes.fleet import disposed, wait_until
from tests.processes.loyalty import Server, copy_home


@pytest.fixture(scope="session")
def migrated_home(temporary_directory: Path) -> Path:
    """A home whose database has the schema and no organization, and is not running; copying it saves the migration."""
    home = temporary_directory / "migrated"
    # Keep one small file of the write-ahead log, and not those for later records: they would be half of each copy.
    options = {"fsync": "off", "wal_recycle": "off", "wal_init_zero": "off"}
    with embedded.server(home, options=options) as url, disposed(create_engine(url, threads=1)) as engine:
        schema.migrate(engine)
    return home


@pytest.fixture
def home(new_home: Path, migrated_home: Path) -> Path:
    """A home that only this test uses, in its own directory, with a database without organizations."""
    copy_home(migrated_home, new_home)
    return new_home


@pytest.fixture
def serve(home: Path) -> Iterator[Callable[..., Server]]:
    """A function that starts servers on the home; they are killed at the end of the test."""
    servers: list[Server] = []

    def start(*arguments: str, **variables: str) -> Server:
        servers.append(Server(home, *arguments, **variables))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait()
        server.process.stdout.close()


@pytest.fixture(scope="module")
def shared_home(temporary_directory: Path, migrated_home: Path) -> Iterator[Path]:
    """A home that the tests of a file share, in its own directory, with a database without organizations."""
    directory = Path(tempfile.mkdtemp(dir=temporary_directory))
    directory.chmod(0o755)
    copy_home(migrated_home, directory / "home")
    yield directory / "home"
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def new_home(temporary_directory: Path) -> Iterator[Path]:
    """A home that does not exist yet, in its own directory; at the end of the test its database is stopped."""
    directory = Path(tempfile.mkdtemp(dir=temporary_directory))
    directory.chmod(0o755)
    yield directory / "home"
    wait_until(lambda: _is_stopped(directory / "home"))
    # Remove the files at once: files that exist only for a short time are never written to the disk.
    shutil.rmtree(directory, ignore_errors=True)


def _is_stopped(home: Path) -> bool:
    """Stop the database if killed processes left it running; False if it still runs, and has to be asked again."""
    description = embedded.describe(home)
    if description is None or not description.is_running:
        return True
    with embedded.server(home):
        pass
    return not embedded.describe(home).is_running
