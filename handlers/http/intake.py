"""Receives the bodies of requests, with a maximum size and a time limit."""

import asyncio
from collections.abc import Callable

from starlette.types import Receive

from handlers.http.exchange import Exchange
from handlers.http.problems import HttpProblem
from handlers.messages.uploads import Upload


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


async def read_upload(receive: Receive, exchange: Exchange, max_bytes: int, seconds: float) -> Upload:
    """Receive a body that is a file, and store it on disk.

    Refuses the body with 413 or 408 like `read_body`, and with 503 if the disk is full.
    """
    upload = Upload()
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


async def read_body(receive: Receive, exchange: Exchange, max_bytes: int, seconds: float) -> bytes:
    """Receive a whole body.

    Refuses the body with 413 as soon as its size is known to be too large, and with 408 if it does not arrive in time.
    """
    parts: list[bytes] = []
    await _read(receive, exchange, max_bytes, seconds, parts.append)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _read(
    receive: Receive, exchange: Exchange, max_bytes: int, seconds: float, take: Callable[[bytes], None]
) -> None:
    """Pass each part of the body to `take` when it arrives."""
    declared = exchange.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and (len(declared) > 18 or int(declared) > max_bytes):
        raise _too_large(max_bytes)
    try:
        async with asyncio.timeout(seconds):
            await _receive(receive, max_bytes, take)
    except TimeoutError:
        raise HttpProblem(408, "The request body did not arrive in time.", headers={"Connection": "close"}) from None


async def _receive(receive: Receive, max_bytes: int, take: Callable[[bytes], None]) -> None:
    """Pass each part of the body to `take`, without a time limit; raises ClientGone."""
    size = 0
    while True:
        message = await receive()
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
