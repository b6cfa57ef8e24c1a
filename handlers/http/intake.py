"""Receives the request body: its greatest size and its time limit."""

import asyncio
from collections.abc import Callable

from starlette.types import Receive

from handlers.http.exchange import Exchange
from handlers.http.problems import HttpProblem
from handlers.messages.uploads import Upload


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


async def read_upload(receive: Receive, exchange: Exchange, most: int, seconds: float) -> Upload:
    """A body that is a file, kept on disk while it arrives; refused as by `read_body`, and with 503 on a full disk."""
    upload = Upload()
    try:
        await _read(receive, exchange, most, seconds, upload.append)
    except OSError:
        upload.close()
        raise HttpProblem(
            503, "The server has no disk space left for the body.", headers={"Retry-After": "60"}
        ) from None
    except BaseException:
        upload.close()
        raise
    return upload


async def read_body(receive: Receive, exchange: Exchange, most: int, seconds: float) -> bytes:
    """The whole body.

    Refuses with 413 as soon as the body is known to be larger than `most` bytes, with 408 when it is late.
    """
    parts: list[bytes] = []
    await _read(receive, exchange, most, seconds, parts.append)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _read(receive: Receive, exchange: Exchange, most: int, seconds: float, take: Callable[[bytes], None]) -> None:
    """Hand the body over to `take`, part by part as it arrives."""
    declared = exchange.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and (len(declared) > 18 or int(declared) > most):
        raise _too_large(most)
    try:
        async with asyncio.timeout(seconds):
            await _receive(receive, most, take)
    except TimeoutError:
        raise HttpProblem(408, "The request body did not arrive in time.", headers={"Connection": "close"}) from None


async def _receive(receive: Receive, most: int, take: Callable[[bytes], None]) -> None:
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise _too_large(most)
        if part:
            take(part)
        if not message.get("more_body", False):
            return


def _too_large(most: int) -> HttpProblem:
    return HttpProblem(413, f"The body is larger than {most} bytes.")
