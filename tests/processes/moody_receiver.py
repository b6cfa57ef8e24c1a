"""A receiver of webhooks that responds with 204, 500, 307 or half a line, hangs up, or never responds, at random.

Run with a port, the name of its log and a seed. It checks every signature with the library that Standard Webhooks
publishes, with the secret of the path, and logs a line before it responds: id, path, verdict, mood and payload.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from typing import Any

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

SECRETS = {
    "/results": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "/events": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
}
RECEIVED = "received"
# How many of a thousand requests get which response; all others get a 204.
MOODS = {"500": 40, "307": 5, "cut": 20, "half": 10, "hang": 1}


def next_mood(pick: random.Random) -> str:
    """The kind of response to the next request."""
    number = pick.randrange(1000)
    for name, share in MOODS.items():
        if number < share:
            return name
        number -= share
    return RECEIVED


def log_line(path: str, headers: dict[str, str], body: bytes, mood: str) -> str:
    """The line of the log about a request that gets the response of a mood."""
    try:
        message: Any = Webhook(SECRETS[path]).verify(body, headers)
        verdict = "signed"
    except WebhookVerificationError:
        message, verdict = json.loads(body), "forged"
    data = message["data"]
    result = data["result"]
    return f"{headers['webhook-id']} {path} {verdict} {mood} {result['loyaltyEventKey']} {result['status']}\n"


async def respond(mood: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send the response of a mood."""
    if mood == "hang":
        await asyncio.wait_for(reader.read(1), 60)  # until the sender hangs up
    elif mood == "half":
        writer.write(b"HTTP/1.1 20")
    elif mood != "cut":
        status = {RECEIVED: "204 No Content", "500": "500 Oh No", "307": "307 There\r\nLocation: /elsewhere"}[mood]
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    await writer.drain()


async def serve(port: int, log: str, seed: int) -> None:
    """Receive until killed."""
    pick = random.Random(seed)
    log_descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request_line, *header_lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (header.partition(":") for header in header_lines)
            }
            body = await reader.readexactly(int(headers["content-length"]))
            mood = next_mood(pick)
            os.write(log_descriptor, log_line(request_line.split()[1], headers, body, mood).encode())
            await respond(mood, reader, writer)
        except (OSError, EOFError, TimeoutError):
            pass  # the sender was killed
        finally:
            writer.close()

    server = await asyncio.start_server(receive, "127.0.0.1", port, backlog=1000)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
