"""The address of the server that runs on the embedded database of a folder, for the commands that call it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from handlers.settings import Settings

_FILE = "server"
_TIMEOUT_SECONDS = 5
# Importing the HTTP layer for its constant would take seconds.
_PROBLEM = "application/problem+json"


@contextmanager
def publish_address(home: Path | None, url: str, announce: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Yield a function to call when the server is ready: it writes the address to `home`, and calls `announce`.

    The address is removed after the block. `home` is None if the server does not use an embedded database.
    """
    parent = os.getpid()
    content = f"{parent} {url}\n"

    def when_ready() -> None:
        if home is not None:
            (home / _FILE).write_text(content, encoding="utf-8")
        announce()

    try:
        yield when_ready
    finally:
        # Forked workers pass through here as well, and another server may have written its own address since.
        if home is not None and os.getpid() == parent and _read(home) == content:
            (home / _FILE).unlink(missing_ok=True)


def server_url(settings: Settings) -> str:
    """The base URL of the server: the configured one, or else the one of a server that uses this home.

    If no such server runs, it has the configured host and port.
    """
    if settings.base_url or settings.database_url:
        return settings.public_url
    number, _, url = _read(settings.home).strip().partition(" ")
    return url if number.isdecimal() and _is_alive(int(number)) else settings.public_url


def fault_of_base_url(base_url: str) -> str | None:
    """The reason why the API is not found under a base URL; None if it is found.

    Raises httpx.TransportError if nothing responds.
    """
    import httpx

    # Unlike the pages, an operation is at the base URL even if there is a second address for the management.
    response = httpx.get(f"{base_url}/members", timeout=_TIMEOUT_SECONDS)
    # 401 for lack of a token, 429 above the rate of calls.
    if response.status_code in (401, 429) and response.headers.get("content-type", "").startswith(_PROBLEM):
        return None
    origin = str(response.url.copy_with(raw_path=b"/")).rstrip("/")
    return f"a server responds at {base_url}, and has no API there: the base URL ends in /v2, such as {origin}/v2"


def _read(home: Path) -> str:
    try:
        return (home / _FILE).read_text(encoding="utf-8")
    except OSError:
        return ""


def _is_alive(process: int) -> bool:
    """True if a process with this id runs."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # The process belongs to another user.
        return True
    return True
