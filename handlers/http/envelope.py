"""What surrounds every exchange: the request id, the headers that any answer has, the log line and the metrics."""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handlers.http import metrics
from handlers.http.exchange import Exchange, open_exchange
from handlers.http.logging import log_request
from handlers.http.problems import MEDIA_TYPE, problem_body

_log = logging.getLogger("loyalty.errors")
_POLICY_VIOLATION = 1008


class Envelope:
    """The outermost application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or one phase of the server's life."""
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = open_exchange(scope, time.perf_counter())
        sealed = _sealing(send, exchange, is_head=scope["method"] == "HEAD")
        try:
            await self._app(scope, receive, sealed)
        except Exception as error:
            # Only a fault of the HTTP layer itself comes here; what operations raise was answered further inside.
            _log.error("a request failed", exc_info=error, extra={"requestId": exchange.request_id})
            if exchange.status:
                raise
            await _send_failure(sealed, exchange)
        finally:
            seconds = time.perf_counter() - exchange.started
            log_request(exchange, scope["method"], seconds)
            name = exchange.operation_id or exchange.route or "none"
            metrics.observe(name, scope["method"], exchange.status, seconds)


def _sealing(send: Send, exchange: Exchange, *, is_head: bool) -> Send:
    async def sealed(message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            headers = [*message["headers"], (b"x-request-id", exchange.request_id.encode())]
            if exchange.deprecated_at is not None:
                headers.append((b"deprecation", b"@%d" % exchange.deprecated_at))
            message = {**message, "headers": headers}
        elif is_head and message.get("body"):
            message = {**message, "body": b""}
        await send(message)

    return sealed


async def _send_failure(send: Send, exchange: Exchange) -> None:
    body = problem_body(500, "Something went wrong. The request id leads to the log entry.", exchange.request_id)
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": body})
