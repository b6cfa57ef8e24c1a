"""The spans of calls: an application around all others, which only exists if tracing is on."""

from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from handlers import tracing
from handlers.http.exchange import Exchange, exchange_of

# Only calls of these paths are traced, not health checks and measurements, which come every few seconds.
_TRACED_PREFIX = "/v2/"


class Traced:
    """Creates a span for each call; it continues the client's trace, if headers name one (W3C Trace Context)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or one phase of the server's lifespan."""
        if scope["type"] != "http" or not scope["path"].startswith(_TRACED_PREFIX):
            await self._app(scope, receive, send)
            return
        from opentelemetry.trace import SpanKind, StatusCode

        parent = _parent({name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]})
        with tracing.tracer_span(scope["method"], context=parent, kind=SpanKind.SERVER) as span:
            await self._app(scope, receive, send)
            exchange = exchange_of(scope)
            if exchange.operation_id or exchange.route:
                span.update_name(f"{scope['method']} {exchange.operation_id or exchange.route}")
            span.set_attributes(_attributes(scope["method"], exchange))
            if exchange.status >= 500:
                span.set_status(StatusCode.ERROR)


def _parent(headers: dict[str, str]) -> Any:
    """The context of the client's span; an empty context if the headers name no span."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract(headers)


def _attributes(method: str, exchange: Exchange) -> dict[str, Any]:
    """The attributes of the span of a request, without unknown ones."""
    attributes = {
        "http.request.method": method,
        "http.response.status_code": exchange.status,
        "http.route": exchange.route,
        "loyalty.operation": exchange.operation_id,
        "loyalty.organization_id": None if exchange.caller is None else exchange.caller.organization_id,
        "loyalty.request_id": exchange.request_id,
    }
    return {name: value for name, value in attributes.items() if value is not None}
