from __future__ import annotations

import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from handlers.settings import Settings
from tests.builders.api import running_api
from tests.processes.loyalty import Server
from tests.sdks.running import SURFACES, Running


@pytest.fixture(scope="session")
def running_server(settings: Settings, temporary_directory: Path) -> Iterator[Running]:
    """`loyalty serve` on the test database."""
    folder = Path(tempfile.mkdtemp(dir=temporary_directory))
    server = Server(folder / "home", "--workers", "1", LOYALTY_DATABASE_URL=settings.database_url)
    try:
        server.wait_until_ready()
        for surface in SURFACES:
            with urllib.request.urlopen(f"{server.url}/v2/{surface}/openapi.json") as response:
                (folder / f"{surface}.json").write_bytes(response.read())
        with running_api(settings) as api:
            yield Running(api, server.url, folder)
    finally:
        server.stop()
