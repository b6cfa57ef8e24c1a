"""The outermost layer: the request id, the headers of every response, the log line and the metrics."""

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handlers import metrics
from handlers.http.exchange import Exchange, open_exchange
from handlers.http.logging import log_request
from handlers.http.problems import MEDIA_TYPE, problem_body
from handlers.http.rates import rate_headers
from handlers.http.throttle import Throttle, TooOften
from handlers.messages.json_text import encode

_log = logging.getLogger("loyalty.errors")
_POLICY_VIOLATION = 1008
# Only calls of these paths count for the rate of an address, not health checks and measurements.
_RATE_LIMITED_PREFIX = "/v2/"
# The headers of responses that do not set them. Responses, even problems, can contain personal data or tokens: nothing
# on the way to the client may cache them.
_DEFAULT_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class Envelope:
    """The outermost application."""

    def __init__(self, app: ASGIApp, throttle: Throttle) -> None:
        self._app = app
        self._throttle = throttle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or one phase of the server's lifespan."""
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = open_exchange(scope, time.perf_counter())
        peer = scope.get("client") or ("",)
        exchange.address = self._throttle.address_of(peer[0], exchange.headers.get("x-forwarded-for", ""))
        completing_send = _completing_send(send, exchange, is_head=scope["method"] == "HEAD")
        try:
            if scope["path"].startswith(_RATE_LIMITED_PREFIX):
                self._throttle.count_address(exchange)
            if scope["http_version"] == "1.1" and "," in exchange.headers.get("host", ","):
                # RFC 9112, 3.2. Several Host headers are joined by a comma; for a missing one the default is a comma.
                fault = "A request of HTTP/1.1 needs one Host header."
                await _send_problem(completing_send, 400, problem_body(400, fault, exchange.request_id))
                return
            await self._app(scope, receive, completing_send)
        except TooOften as refusal:
            body = encode({**refusal.as_problem(), "instance": exchange.request_id})
            await _send_problem(completing_send, 429, body, (b"retry-after", str(refusal.state.seconds).encode()))
        except Exception as error:
            # Only errors of the HTTP layer itself arrive here; errors of operations are handled further inside.
            _log.error("a request failed", exc_info=error, extra={"requestId": exchange.request_id})
            if exchange.status:
                # The response has already begun.
                raise
            await _send_failure(completing_send, exchange)
        finally:
            seconds = time.perf_counter() - exchange.started_at
            log_request(exchange, scope["method"], seconds)
            name = exchange.operation_id or exchange.route or "none"
            metrics.observe(name, scope["method"], exchange.status, seconds)


def _completing_send(send: Send, exchange: Exchange, *, is_head: bool) -> Send:
    """A `send` that adds the headers of all responses, and removes the bodies of responses to HEAD."""

    async def complete_and_send(message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            names = {name.lower() for name, _ in message["headers"]}
            defaults = (pair for pair in _DEFAULT_HEADERS if pair[0] not in names)
            headers = [*message["headers"], *defaults, (b"x-request-id", exchange.request_id.encode())]
            headers.extend(rate_headers(exchange.rates))
            if exchange.deprecated_at is not None:
                headers.append((b"deprecation", b"@%d" % exchange.deprecated_at))
            message = {**message, "headers": headers}
        elif is_head and message.get("body"):
            message = {**message, "body": b""}
        await send(message)

    return complete_and_send


async def _send_failure(send: Send, exchange: Exchange) -> None:
    body = problem_body(500, "Something went wrong. The request id leads to the log entry.", exchange.request_id)
    await _send_problem(send, 500, body)


async def _send_problem(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    body_headers = ((b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": [*body_headers, *headers]})
    await send({"type": "http.response.body", "body": body})
