"""Receives the bodies of requests, with a maximum size and a time limit."""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable

from starlette.types import Receive

from domain.problems import TooBusy
from handlers.http.exchange import Exchange
from handlers.http.problems import HttpProblem
from handlers.messages.uploads import Upload

LARGE_BYTES = 64 * 1024
"""Longer bodies count for the share of their organization, and are parsed one after the other."""
# The maximum for the bodies of an organization that a process keeps, complete or not.
MAX_KEPT_BYTES = 64 * 1024**2
# Uploads leave this much of the disk free. The metrics that processes share are mapped files on the same disk: the
# kernel ends a process that has no space for a page of them.
_MIN_FREE_BYTES = 8 * 1024**2


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


class KeptBody:
    """Counts the bytes of one body for its organization, until the call ends.

    `kept_bytes` counts the bytes of all bodies above `LARGE_BYTES` that the process keeps, by organization.
    """

    def __init__(self, kept_bytes: Counter[Hashable], organization: Hashable) -> None:
        self._kept_bytes = kept_bytes
        self._organization = organization
        self._size = 0
        self._counted = 0

    def add(self, size: int) -> None:
        """Count more bytes of the body; raises TooBusy if the organization has no share left for them."""
        self._size += size
        if self._size <= LARGE_BYTES:
            return
        uncounted = self._size - self._counted
        if self._kept_bytes[self._organization] + uncounted > MAX_KEPT_BYTES:
            raise TooBusy(
                "With this body, the large bodies of the organization's current calls would exceed the maximum of "
                f"{MAX_KEPT_BYTES // 1024**2} MiB. Try again, or send fewer large bodies at the same time."
            )
        self._kept_bytes[self._organization] += uncounted
        self._counted = self._size

    def release(self) -> None:
        """End the count, since the call has ended."""
        if self._counted:
            self._kept_bytes[self._organization] -= self._counted
            self._counted = 0
            if not self._kept_bytes[self._organization]:
                del self._kept_bytes[self._organization]


async def read_upload(receive: Receive, exchange: Exchange, max_bytes: int, seconds: float) -> Upload:
    """Receive a body that is a file, and store it on disk.

    Refuses the body with 413 or 408 like `read_body`, and with 503 if the disk is full.
    """
    upload = Upload(_MIN_FREE_BYTES)
    try:
        await _read(receive, exchange, max_bytes, seconds, upload.append)
    except OSError:
        upload.close()
        raise HttpProblem(
            503, "The server has no disk space left for the body.", headers={"Retry-After": "60"}
        ) from None
    except BaseException:
        upload.close()
        raise
    return upload


async def read_body(receive: Receive, exchange: Exchange, max_bytes: int, seconds: float, kept_body: KeptBody) -> bytes:
    """Receive a whole body, and count its bytes by `kept_body`.

    Refuses the body with 413 as soon as its size is known to be too large, with 408 if it does not arrive in time, and
    with 503 if the organization has no share of the memory left.
    """
    parts: list[bytes] = []

    def keep(part: bytes) -> None:
        kept_body.add(len(part))
        parts.append(part)

    await _read(receive, exchange, max_bytes, seconds, keep)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _read(
    receive: Receive, exchange: Exchange, max_bytes: int, seconds: float, take: Callable[[bytes], None]
) -> None:
    """Pass each part of the body to `take` when it arrives."""
    size_text = exchange.headers.get("content-length", "")
    # A number of more than 18 digits is too large in any case, and may be too long to convert.
    if size_text.isascii() and size_text.isdigit() and (len(size_text) > 18 or int(size_text) > max_bytes):
        raise _too_large(max_bytes)
    try:
        async with asyncio.timeout(seconds) as time_limit:
            await _receive(receive, max_bytes, take, time_limit)
    except TimeoutError:
        raise HttpProblem(408, "The request body did not arrive in time.", headers={"Connection": "close"}) from None


async def _receive(
    receive: Receive, max_bytes: int, take: Callable[[bytes], None], time_limit: asyncio.Timeout
) -> None:
    """Pass each part of the body to `take`; raises ClientGone."""
    size = 0
    while True:
        message = await receive()
        if time_limit.expired():
            # With Python 3.11, `receive` ignores the cancellation if a part arrives at the same time.
            raise TimeoutError
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            raise _too_large(max_bytes)
        if part:
            take(part)
        if not message.get("more_body", False):
            return


def _too_large(max_bytes: int) -> HttpProblem:
    return HttpProblem(413, f"The body is larger than {max_bytes} bytes.")
