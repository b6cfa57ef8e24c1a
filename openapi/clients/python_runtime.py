"""Sends the requests of the generated clients: tokens, exact decimals, keys, retries and pages."""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack
from urllib.parse import quote

import httpx

_KEY = "systemUniqueKey"
# A token is renewed this long before it expires.
_RENEWAL_SECONDS = 60
_FIRST_DELAY_SECONDS = 0.25
# The call fails at once if the server demands a longer wait.
_MAX_DELAY_SECONDS = 30.0


class Problem(Exception):
    """A refusal of the server (RFC 9457). `fields` has all fields, also those without an attribute."""

    def __init__(self, status: int, fields: Mapping[str, Any], request_id: str | None) -> None:
        self.status = status
        self.fields = dict(fields)
        self.type: str = fields.get("type", "about:blank")
        self.title: str = fields.get("title", fields.get("error", ""))
        self.detail: str = fields.get("detail", fields.get("error_description", ""))
        self.errors: list[dict[str, Any]] = fields.get("errors", [])
        self.request_id = request_id
        super().__init__(f"{status} {self.type}: {self.detail or self.title}")


class Options(TypedDict, total=False):
    """How a client is authorized and how long it tries.

    Give a `token`, or a `client_id` and `client_secret`, for which tokens are fetched and renewed; partners give an
    `api_key`. `timeout` is in seconds, for each attempt, 30 by default. `max_retries` is 4 by default.
    """

    token: str
    client_id: str
    client_secret: str
    api_key: str
    timeout: float
    max_retries: int
    transport: httpx.BaseTransport


class BaseClient:
    """A pool of connections to a server; threads can share it. Use it in a `with`, or close it.

    `base_url` has the `/v2` at its end.
    """

    def __init__(self, base_url: str, **options: Unpack[Options]) -> None:
        self._http = httpx.Client(
            base_url=base_url.rstrip("/"), timeout=options.get("timeout", 30.0), transport=options.get("transport")
        )
        self._token = options.get("token")
        client_id = options.get("client_id")
        self._credentials = None if client_id is None else (client_id, options.get("client_secret"))
        self._expires_at = 0.0
        self._renewal = threading.Lock()
        self._api_key = options.get("api_key")
        self._max_retries = options.get("max_retries", 4)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _call(
        self,
        method: str,
        path: str,
        values: Sequence[object] = (),
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        body_type: str | None = None,
        key_path: str | None = None,
        is_open: bool = False,
    ) -> Any:
        """Send a request, repeat it where that is safe, and return the result."""
        url = path.format(*(quote(str(value), safe="") for value in values))
        if key_path is not None:
            body = _with_keys(body, key_path)
        content = _content(body, body_type)
        headers = {} if content is None or body_type is None else {"Content-Type": body_type}
        is_repeatable = method != "POST" or key_path is not None
        params = _query(query or {})
        for attempt in range(self._max_retries + 1):
            is_last = attempt == self._max_retries
            try:
                request_headers = headers if is_open else headers | self._authorization()
                response = self._http.request(method, url, params=params, content=content, headers=request_headers)
            except httpx.TransportError as error:
                is_unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
                if is_last or not (is_repeatable or is_unsent):
                    raise
                time.sleep(_delay(attempt, None))
                continue
            if response.is_success:
                return _result(response)
            delay = _delay(attempt, response.headers.get("Retry-After"))
            can_retry = response.status_code == 429 or (response.status_code == 503 and is_repeatable)
            if is_last or not can_retry or delay > _MAX_DELAY_SECONDS:
                raise _problem(response)
            time.sleep(delay)
        raise AssertionError("unreachable")

    def _iterate(
        self, path: str, values: Sequence[object], query: Mapping[str, Any], field: str, *, has_cursor: bool
    ) -> Iterator[Any]:
        """The items of all pages; a page is fetched when its first item is needed."""
        next_page: dict[str, Any] = {}
        page_count = 0
        while True:
            page = self._call("GET", path, values, query={**query, **next_page})
            yield from page[field]
            page_count += 1
            next_page = {"cursor": page["nextCursor"]} if has_cursor else {"page": page_count}
            if not page[field] or (has_cursor and page["nextCursor"] is None):
                return

    def _authorization(self) -> dict[str, str]:
        """The headers with the credentials; fetches a new token if the present one expires soon."""
        headers = {} if self._api_key is None else {"x-api-key": self._api_key}
        if self._credentials is not None:
            with self._renewal:
                if time.monotonic() >= self._expires_at:
                    self._fetch_token(*self._credentials)
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _fetch_token(self, client_id: str, client_secret: str | None) -> None:
        """Fetch a token and keep it; raises Problem."""
        form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": client_secret}
        response = self._http.post("/oauth/token", data=form)
        if not response.is_success:
            raise _problem(response)
        token = response.json()
        self._token = token["access_token"]
        self._expires_at = time.monotonic() + max(token["expires_in"] - _RENEWAL_SECONDS, 1)


def to_json(value: Any) -> str:
    """A value as JSON; decimals keep all their digits."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"JSON has no number {value}")
        return format(value, "f")
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(name)}:{to_json(child)}" for name, child in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(to_json, value)) + "]"
    return json.dumps(value, allow_nan=False)


def _with_keys(body: Any, key_path: str) -> Any:
    """The body with a key in each part that has none, so that it can be sent again."""
    if key_path:
        return {**body, key_path: [_with_keys(item, "") for item in body.get(key_path, ())]}
    if body is not None and body.get(_KEY) is not None:
        return body
    return {**(body or {}), _KEY: str(uuid.uuid4())}


def _content(body: Any, body_type: str | None) -> bytes | None:
    """The bytes of a body, as its media type defines; None without a body."""
    if body is None:
        return None
    if body_type == "application/json":
        return to_json(body).encode()
    if body_type == "application/x-www-form-urlencoded":
        return str(httpx.QueryParams(body)).encode()
    return bytes(body)


def _query(query: Mapping[str, Any]) -> dict[str, str]:
    """The parameters that have a value; a mapping is a family of parameters."""
    texts: dict[str, str] = {}
    for name, value in query.items():
        if isinstance(value, Mapping):
            texts |= {f"{name}.{part}": str(child) for part, child in value.items()}
        elif isinstance(value, list | tuple):
            texts[name] = ",".join(map(str, value))
        elif isinstance(value, bool):
            texts[name] = "true" if value else "false"
        elif value is not None:
            texts[name] = str(value)
    return texts


def _result(response: httpx.Response) -> Any:
    if response.headers.get("Content-Type", "").startswith("application/json"):
        return json.loads(response.text, parse_float=Decimal)
    return response.text or None


def _problem(response: httpx.Response) -> Problem:
    """The problem that a response contains; if it is no JSON object, its text becomes the detail."""
    try:
        fields = response.json()
    except ValueError:
        fields = {"detail": response.text[:200]}
    fields = fields if isinstance(fields, dict) else {"detail": str(fields)}
    return Problem(response.status_code, fields, response.headers.get("X-Request-Id"))


def _delay(attempt: int, retry_after: str | None) -> float:
    """Seconds until the next attempt: as `Retry-After` asks, else twice as long each time, with jitter."""
    if retry_after is not None and retry_after.isdigit():
        return float(retry_after)
    return float(min(_FIRST_DELAY_SECONDS * 2**attempt * random.uniform(0.5, 1.0), _MAX_DELAY_SECONDS))
