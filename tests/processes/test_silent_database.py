"""A database that accepts connections but is silent delays only the calls that need it, and these in their time."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.processes.fleet import silent_database, wait_until
from tests.processes.loyalty import Server, curl_line, status

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")

REQUEST_SECONDS = 2


def test_calls_end_in_time_and_pages_respond_while_the_database_is_silent(
    home: Path, serve: Callable[..., Server]
) -> None:
    settings = {"LOYALTY_REQUEST_TIMEOUT_MS": str(REQUEST_SECONDS * 1000)}
    server = serve("--workers", "1", "--no-worker", **settings)
    url, headers = curl_line(server.greeting())
    assert status(url, **headers) == 200
    with silent_database(home), ThreadPoolExecutor() as clients:
        start = time.monotonic()
        calls = [clients.submit(status, url, **headers) for _ in range(4)]
        while time.monotonic() < start + 2 * REQUEST_SECONDS:
            assert status(f"{server.url}/health/live") == 200
            time.sleep(0.1)
        assert [call.result() for call in calls] == [503] * 4
        pages = [clients.submit(status, server.url + path) for path in ("/health/ready", "/metrics")]
        assert [page.result() for page in pages] == [503, 200]
    wait_until(lambda: status(url, **headers) == 200)
    assert status(f"{server.url}/health/ready") == 200
    assert server.stop() == 0
    assert "Traceback" not in server.log.read_text()
