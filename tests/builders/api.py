"""The API as its clients see it: the application in this process, called on organizations made for a test."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import sys
import threading
import uuid
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from importlib.util import find_spec
from typing import Any

import httpx
from sqlalchemy import Engine

from handlers.http.app import create_app
from handlers.services import configuration, tokens
from handlers.services.organizations.create import CreatedOrganization, create_organization
from handlers.settings import Settings
from persistence import transactions
from persistence.engine import create_engine, to_json

BASE = "http://loyalty.test/v2"

# httpx imports this package at every call. None makes the import fail at once; a search takes a tenth of the call.
if find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Reply:
    """A response of the server; numbers of `json` are exact."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text, parse_float=Decimal) if self.text else None


@dataclass(frozen=True)
class Surface:
    """One surface as one caller: paths are relative to it, keyword arguments are query parameters.

    `get`, `post`, `put`, `patch` and `delete` return the body of the response. They fail unless its status is `expect`.
    """

    app: Any
    prefix: str
    token: str | None

    def with_token(self, token: str | None) -> Surface:
        """The same surface as another caller; None sends no token."""
        return replace(self, token=token)

    def get(self, path: str, *, expect: int = 200, **query: Any) -> Any:
        return self.request("GET", path, expect=expect, **query).json

    def post(self, path: str, body: Any = None, *, expect: int = 201, **query: Any) -> Any:
        return self.request("POST", path, body, expect=expect, **query).json

    def put(self, path: str, body: Any, *, expect: int = 200, **query: Any) -> Any:
        return self.request("PUT", path, body, expect=expect, **query).json

    def patch(self, path: str, body: Any, *, expect: int = 200, **query: Any) -> Any:
        return self.request("PATCH", path, body, expect=expect, **query).json

    def delete(self, path: str, *, expect: int = 204, **query: Any) -> Any:
        return self.request("DELETE", path, expect=expect, **query).json

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        expect: int | None = None,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Reply:
        """Send one request and return the reply; it may have any status unless `expect` is given.

        `body` is sent as JSON with exact numbers, or unchanged if it is bytes; `form` is sent as an HTML form.
        """
        request_headers = dict(headers or {})
        if self.token is not None:
            request_headers.setdefault("Authorization", f"Bearer {self.token}")
        content = body if body is None or isinstance(body, bytes) else to_json(body).encode()
        if content is not None:
            request_headers["Content-Type"] = "application/octet-stream" if content is body else "application/json"
        params = {name: _in_query(value) for name, value in query.items()}

        url = BASE + self.prefix + path
        request = httpx.Request(method, url, params=params, headers=request_headers, content=content, data=form)
        reply = _run(_send(self.app, request))
        if expect is not None and reply.status != expect:
            raise AssertionError(f"{method} {path} returned {reply.status} instead of {expect}: {reply.text}")
        return reply


def _run(call: Coroutine[Any, Any, Reply]) -> Reply:
    """Run a call on an event loop of the main thread, or of its own in another thread.

    A new event loop for each call would take a twentieth of the time of the tests.
    """
    if threading.current_thread() is threading.main_thread():
        return _loop_of_process(os.getpid()).run_until_complete(call)
    return asyncio.run(call)


@cache
def _loop_of_process(process_id: int) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


async def _send(app: Any, request: httpx.Request) -> Reply:
    # Without a client, which would take half of the time of a request.
    response = await httpx.ASGITransport(app=app).handle_async_request(request)
    await response.aread()
    return Reply(response.status_code, response.headers, response.text)


def _in_query(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


@dataclass(frozen=True)
class Organization:
    """An organization made for one test, its administrator's token, and both surfaces as this administrator."""

    api: Api
    defaults: CreatedOrganization
    token: str

    @property
    def id(self) -> int:
        return self.defaults.organization_id

    @property
    def integration(self) -> Surface:
        return Surface(self.api.app, "", self.token)

    @property
    def administration(self) -> Surface:
        return Surface(self.api.app, f"/organizations/{self.id}", self.token)

    def token_of(self, *roles: str, is_admin: bool = False) -> str:
        """A token of a caller with only these roles."""
        return self.api.token(self.id, roles, is_admin=is_admin)

    def member(self, loyalty_member_id: str | None = None, **properties: Any) -> Any:
        """A new member, as the integration surface returns it."""
        body = {"loyaltyMemberId": loyalty_member_id or f"member-{uuid.uuid4()}", **properties}
        return self.integration.post("/members", body)["loyaltyMember"]

    def member_token(self, loyalty_member_id: str) -> str:
        """An access token of the member."""
        return self.integration.post(f"/members/{loyalty_member_id}/access-tokens")["accessToken"]


@dataclass(frozen=True)
class Api:
    """The application, with every response checked against the documents."""

    app: Any
    engine: Engine
    settings: Settings

    def organization(self, name: str = "Corner Coffee", **properties: Any) -> Organization:
        """A new organization, which sees no records of another."""
        now = datetime.now(UTC)
        defaults = transactions.run(self.engine, lambda db: create_organization(db, name=name, now=now, **properties))
        return Organization(self, defaults, self.token(defaults.organization_id, (), is_admin=True))

    def token(self, organization_id: int, roles: Iterable[str], *, is_admin: bool = False) -> str:
        """An operator's token for the organization."""
        return transactions.run(
            self.engine,
            lambda db: tokens.issue_operator_token(
                db,
                self.settings,
                organization_id=organization_id,
                roles=frozenset(roles),
                is_admin=is_admin,
                lifetime=3600,
                now=datetime.now(UTC),
            ),
        )

    def surface(self, prefix: str = "", token: str | None = None) -> Surface:
        """The API below the path `prefix`, as the caller of the token; None sends no token."""
        return Surface(self.app, prefix, token)


@contextmanager
def running_api(settings: Settings) -> Iterator[Api]:
    """Yield the application with a new engine; dispose of the engine at the end."""
    engine = create_engine(
        settings.database_url,
        threads=settings.threads,
        statement_timeout_ms=settings.statement_timeout_ms,
        lock_timeout_ms=settings.lock_timeout_ms,
        application_name="loyalty-tests-api",
    )
    # Organizations of different databases have the same ids.
    configuration._cache.clear()
    yield Api(create_app(settings, engine), engine, settings)
    configuration._cache.clear()
    engine.dispose()
