"""One exchange of request and response: data that the middlewares collect for headers, log and metrics."""

from __future__ import annotations

import re
import time
import uuid
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handlers.call import Caller
    from handlers.http.rates import RateState

_KEY = "loyalty.exchange"
_SANE_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")

request_id_of_thread: ContextVar[str] = ContextVar("request_id", default="-")
"""The request that the running thread works for, so that every log line made on the way names it."""


@dataclass(slots=True, eq=False)
class Exchange:
    """The collected data of one request, filled in on the way through the stack."""

    headers: dict[str, str]
    request_id: str
    started_at: float
    # The moment at which the time limit of the request begins.
    arrived_at: float
    operation_id: str | None = None
    route: str | None = None
    path_values: tuple[tuple[str, bytes], ...] = ()
    caller: Caller | None = None
    deprecated_at: int | None = None
    status: int = 0
    address: str = ""
    rates: dict[str, RateState] = field(default_factory=dict)
    # Error statuses that the document declares without content for the operation.
    without_body: frozenset[int] = frozenset()

    def seconds_left(self, limit: float) -> float:
        """The seconds that remain of the time limit of the request, which is `limit` seconds; at least 0."""
        return max(0.0, self.arrived_at + limit - time.perf_counter())


def open_exchange(scope: Any, started_at: float) -> Exchange:
    """Begin the exchange of an ASGI scope, with a well-formed `X-Request-Id` of the client or else a new id."""
    headers: dict[str, str] = {}
    request_id = None
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        # Repeated fields join with a comma (RFC 9110, 5.3): a second Content-Type or Authorization becomes invalid.
        headers[key] = f"{headers[key]}, {value.decode('latin-1')}" if key in headers else value.decode("latin-1")
        if key == "x-request-id" and _SANE_REQUEST_ID.fullmatch(value):
            request_id = value.decode("latin-1")
    exchange = Exchange(headers, request_id or str(uuid.uuid4()), started_at, started_at)
    scope[_KEY] = exchange
    return exchange


def exchange_of(scope: Any) -> Exchange:
    """The exchange that `open_exchange` began for this scope."""
    exchange: Exchange = scope[_KEY]
    return exchange
