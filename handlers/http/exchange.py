"""One exchange of request and response: data that the middlewares collect for headers, log and metrics."""

import re
import uuid
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handlers.call import Caller
    from handlers.http.rates import RateState

_KEY = "loyalty.exchange"
_SANE_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")

request_id_of_thread: ContextVar[str] = ContextVar("request_id", default="-")
"""The request that the running thread works for, so that every log line made on the way names it."""


class Exchange:
    """The collected data of one request, filled in on the way through the stack."""

    __slots__ = (
        "address",
        "arrived",
        "caller",
        "deprecated_at",
        "headers",
        "operation_id",
        "path_values",
        "rates",
        "request_id",
        "route",
        "started",
        "status",
        "without_body",
    )

    def __init__(self, headers: dict[str, str], request_id: str, started: float) -> None:
        self.headers = headers
        self.request_id = request_id
        self.started = started
        # The moment from which its time runs.
        self.arrived = started
        self.operation_id: str | None = None
        self.route: str | None = None
        self.path_values: tuple[tuple[str, bytes], ...] = ()
        self.caller: Caller | None = None
        self.deprecated_at: int | None = None
        self.status = 0
        self.address = ""
        self.rates: dict[str, RateState] = {}
        # Error statuses that the document declares without content for the operation.
        self.without_body: frozenset[int] = frozenset()


def open_exchange(scope: Any, started: float) -> Exchange:
    """Begin the exchange of an ASGI scope; a well-formed `X-Request-Id` of the client is kept, else one is made."""
    headers: dict[str, str] = {}
    request_id = None
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        # Repeated fields join with a comma (RFC 9110, 5.3): a second Content-Type or Authorization becomes invalid.
        headers[key] = f"{headers[key]}, {value.decode('latin-1')}" if key in headers else value.decode("latin-1")
        if key == "x-request-id" and _SANE_REQUEST_ID.fullmatch(value):
            request_id = value.decode("latin-1")
    exchange = Exchange(headers, request_id or str(uuid.uuid4()), started)
    scope[_KEY] = exchange
    return exchange


def exchange_of(scope: Any) -> Exchange:
    """The exchange that `open_exchange` began for this scope."""
    exchange: Exchange = scope[_KEY]
    return exchange
