"""The memory for bodies: an organization that sends many large ones does not use that of other organizations."""

from __future__ import annotations

import asyncio
import json

import pytest

from handlers.call import Caller
from handlers.http import intake
from handlers.settings import Settings
from tests.http.support import CALLERS, body, operation, serve

PATHS = {"/any": {"post": operation("any", requestBody=body({})), "delete": operation("delete")}}
# A text of 100,000 bytes, and one of fewer than the 64 KiB above which a body counts as large.
LARGE = b'"' + b"a" * 99_998 + b'"'
SMALL = b'"' + b"a" * 60_000 + b'"'


class Sending:
    """A request that is sent in parts; the name of the caller, admin or other, is also that of its organization."""

    def __init__(self, app, organization, *, method="POST"):
        self._parts = asyncio.Queue()
        self._messages = []
        headers = [(b"authorization", f"Bearer {organization}".encode()), (b"content-type", b"application/json")]
        scope = {"type": "http", "http_version": "1.0", "method": method, "query_string": b"", "path": "/v2/any"}
        scope |= {"raw_path": b"/v2/any", "headers": [*headers, (b"transfer-encoding", b"chunked")]}
        self._task = asyncio.create_task(app(scope, self._parts.get, self._receive))

    async def _receive(self, message):
        self._messages.append(message)

    async def send(self, part):
        """Send a part of the body, and wait until the server has read it."""
        self._parts.put_nowait({"type": "http.request", "body": part, "more_body": True})
        while not (self._parts.empty() or self._task.done()):
            await asyncio.sleep(0)

    async def disconnect(self):
        """Close the connection, and wait until the server has ended the call."""
        self._parts.put_nowait({"type": "http.disconnect"})
        await self._task

    async def response(self, part=b""):
        """Send the last part of the body; returns the status and the JSON of the response."""
        self._parts.put_nowait({"type": "http.request", "body": part, "more_body": False})
        await self._task
        return self._messages[0]["status"], json.loads(self._messages[1]["body"])


@pytest.fixture
def app(monkeypatch):
    """An application that keeps at most 250,000 bytes of large bodies of an organization, each of at most 200,000."""
    monkeypatch.setattr(intake, "MAX_KEPT_BYTES", 250_000)
    monkeypatch.setitem(CALLERS, "other", Caller("other", 2, frozenset(), is_admin=True))
    client, _ = serve(PATHS, settings=Settings(threads=2, max_body_bytes=200_000, validate_responses=True))
    return client.app


def test_a_large_body_is_refused_while_other_bodies_of_its_organization_use_its_share(app):
    async def scenario():
        unfinished_request, slow_request = Sending(app, "admin"), Sending(app, "admin")
        await unfinished_request.send(LARGE[:-1])
        await slow_request.send(LARGE[:-1])
        # Two large bodies are kept. A third would exceed the share of 250,000 bytes.
        status, problem = await Sending(app, "admin").response(LARGE)
        assert (status, problem["type"]) == (503, "/problems/too-busy")
        assert (await Sending(app, "admin").response(SMALL))[0] == 200
        assert (await Sending(app, "other").response(LARGE))[0] == 200
        assert (await Sending(app, "admin", method="DELETE").response(LARGE))[0] == 503
        await unfinished_request.disconnect()
        assert (await Sending(app, "admin").response(LARGE))[0] == 200
        assert (await slow_request.response(LARGE[-1:]))[0] == 200

    asyncio.run(scenario())


def test_a_body_uses_the_share_of_its_organization_only_until_its_call_ends(app):
    async def scenario():
        # Without an end of their use, the bodies of one round would already exceed the share.
        for _ in range(3):
            assert (await Sending(app, "admin").response(LARGE))[0] == 200
            assert (await Sending(app, "admin").response(b"[" + LARGE))[0] == 400
            assert (await Sending(app, "admin").response(2 * LARGE + b"   "))[0] == 413

    asyncio.run(scenario())
