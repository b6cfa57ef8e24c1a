"""Calls to a running server over HTTP, for commands that use the API as clients do."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from handlers.server.commands.server_address import fault_of_base_url

if TYPE_CHECKING:
    import httpx

_TIMEOUT_SECONDS = 60
_ATTEMPTS = 6
_MAX_PAUSE_SECONDS = 30.0


class ApiFailure(click.ClickException):
    """A call to the server failed."""


class _Outcome(NamedTuple):
    """The body of the response to a call: the result of a successful call, or the problem of another one."""

    is_success: bool
    body: Any


class ApiClient:
    """The API under `base_url`, called with `token`. Threads can share it; each call uses one of its connections.

    Numbers are exact in requests and responses. Request ids begin with `run_id`, which differs between clients.
    """

    def __init__(self, base_url: str, token: str, connections: int) -> None:
        import httpx

        self.run_id = f"loyalty-{uuid.uuid4().hex[:12]}"
        self._numbers = itertools.count(1)
        self._base_url = base_url.rstrip("/")
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {token}"},
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            timeout=_TIMEOUT_SECONDS,
        )

    def __enter__(self) -> ApiClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, **query: Any) -> Any:
        """Return the body of the response to a GET."""
        return self._call("GET", path, body=None, query=query, tolerated_types=()).body

    def post(self, path: str, body: Any) -> Any:
        """Return the body of the response to a POST."""
        return self._call("POST", path, body, query={}, tolerated_types=()).body

    def post_unless(self, conflict: str, path: str, body: Any) -> bool:
        """Send a POST; return True, or False if the server refuses with the problem type `conflict` (its slug)."""
        return self._call("POST", path, body, query={}, tolerated_types=(conflict,)).is_success

    def _call(
        self, method: str, path: str, body: Any, query: dict[str, Any], tolerated_types: Collection[str]
    ) -> _Outcome:
        """Send one call, and repeat it while the server is busy or the connection breaks: repeated calls are safe.

        Returns a problem if `tolerated_types` has its slug; raises ApiFailure for others.
        """
        import httpx

        from persistence.engine import to_json

        content = None if body is None else to_json(body).encode()
        for attempt in range(1, _ATTEMPTS + 1):
            headers = {"X-Request-Id": f"{self.run_id}-{next(self._numbers)}"}
            if content is not None:
                headers["Content-Type"] = "application/json"
            url = self._base_url + path
            try:
                response = self._http.request(method, url, params=query, content=content, headers=headers)
            except httpx.TransportError as error:
                if attempt == _ATTEMPTS or isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol):
                    raise ApiFailure(
                        f"no server responds at {self._base_url}: {error}; "
                        "`loyalty serve` starts one, --base-url names another"
                    ) from None
                pause = 0.1 * 2**attempt
            else:
                if response.status_code not in (429, 503) or attempt == _ATTEMPTS:
                    if response.status_code in (404, 405) and (fault := fault_of_base_url(self._base_url)):
                        raise ApiFailure(fault)
                    return _read(response, method, path, tolerated_types)
                pause = _pause_seconds(response.headers.get("retry-after", "1"))
            time.sleep(pause)
        raise AssertionError("the loop above returns or raises")


def _read(response: httpx.Response, method: str, path: str, tolerated_types: Collection[str]) -> _Outcome:
    """Read the outcome of a call from its response; raises ApiFailure unless `tolerated_types` has the problem."""
    from persistence.engine import from_json

    try:
        body = from_json(response.text) if response.content else None
    except ValueError:
        body = None
    if response.is_success:
        return _Outcome(is_success=True, body=body)
    problem = body if isinstance(body, dict) else {}
    if str(problem.get("type", "")).removeprefix("/problems/") in tolerated_types:
        return _Outcome(is_success=False, body=body)
    detail = f": {problem['detail']}" if problem.get("detail") else ""
    hint = ""
    if response.status_code in (401, 403):
        hint = "\nDoes the server at this address use the same database as this command, or is the token another's?"
    raise ApiFailure(f"{method} {path} returned {response.status_code}{detail}{hint}")


def _pause_seconds(text: str) -> float:
    """The pause that a header `Retry-After` requests, limited; 1 second for a date."""
    return min(float(text), _MAX_PAUSE_SECONDS) if text.isdecimal() else 1.0
