"""Commands find the address of the server that runs on the embedded database of their folder."""

from __future__ import annotations

import subprocess
import sys

from handlers.server.commands.server_address import publish_address, server_url
from handlers.settings import Settings

URL = "http://127.0.0.1:9123/v2"
# The address that commands use if no server has published another one.
DEFAULT_URL = "http://127.0.0.1:8080/v2"


def settings(home, **variables: str) -> Settings:
    return Settings.from_environment({"LOYALTY_HOME": str(home), **variables})


def test_the_address_is_published_from_when_the_server_is_ready_until_it_ends(tmp_path):
    announcements = []
    with publish_address(tmp_path, URL, lambda: announcements.append(True)) as when_ready:
        assert server_url(settings(tmp_path)) == DEFAULT_URL
        when_ready()
        assert announcements == [True]
        assert server_url(settings(tmp_path)) == URL
        assert server_url(settings(tmp_path, LOYALTY_BASE_URL="https://a.example/v2")) == "https://a.example/v2"
        assert server_url(settings(tmp_path, LOYALTY_DATABASE_URL="postgresql://localhost/a")) == DEFAULT_URL
    assert server_url(settings(tmp_path)) == DEFAULT_URL
    assert list(tmp_path.iterdir()) == []


def test_the_address_of_a_server_that_was_killed_is_ignored(tmp_path):
    ended_process = subprocess.Popen([sys.executable, "-c", ""])
    ended_process.wait()
    (tmp_path / "server").write_text(f"{ended_process.pid} {URL}\n")
    assert server_url(settings(tmp_path)) == DEFAULT_URL


def test_the_end_of_a_server_leaves_the_address_of_a_later_one(tmp_path):
    later_url = "http://127.0.0.1:9124/v2"
    with publish_address(tmp_path, URL, announce=lambda: None) as when_ready:
        when_ready()
        # The file has the id of the process of the server, here of a process that always runs, and its address.
        (tmp_path / "server").write_text(f"1 {later_url}\n")
    assert server_url(settings(tmp_path)) == later_url


def test_a_server_without_the_embedded_database_publishes_no_address(tmp_path):
    with publish_address(None, URL, lambda: None) as when_ready:
        when_ready()
    assert server_url(settings(tmp_path)) == DEFAULT_URL
