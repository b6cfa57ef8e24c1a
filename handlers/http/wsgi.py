"""Flask inside the ASGI stack, with one change of threads for a request instead of one for each part of a response."""

import asyncio
import io
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any

from starlette.types import Receive, Scope, Send

from handlers.http.exchange import exchange_of

EXCHANGE = "loyalty.exchange"


class OneHopWsgi:
    """Serves a WSGI application whose pages take no request body and fit into memory."""

    def __init__(self, application: Callable[..., Iterable[bytes]], pool: Callable[[], Executor]) -> None:
        self._application = application
        self._pool = pool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request in one of the threads."""
        loop = asyncio.get_running_loop()
        status, headers, body = await loop.run_in_executor(self._pool(), self._run, _environ(scope))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _run(self, environ: dict[str, Any]) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Run the application; return the status, the headers and the body of the response."""
        statuses_and_headers: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[..., None]:
            statuses_and_headers.append((status, headers))
            return lambda data: None

        parts = self._application(environ, start_response)
        try:
            body = b"".join(parts)
        finally:
            getattr(parts, "close", lambda: None)()
        # An application that fails after its first call of `start_response` calls it again.
        status, headers = statuses_and_headers[-1]
        encoded_headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return int(status[:3]), encoded_headers, body


def _environ(scope: Scope) -> dict[str, Any]:
    """The WSGI environment of an ASGI request."""
    host, port = scope.get("server") or ("localhost", 80)
    environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode("utf-8", "surrogateescape").decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port or 80),
        "SERVER_PROTOCOL": f"HTTP/{scope.get('http_version', '1.1')}",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        EXCHANGE: exchange_of(scope),
    }
    for name, value in exchange_of(scope).headers.items():
        if name not in ("content-length", "content-type"):
            environ["HTTP_" + name.upper().replace("-", "_")] = value
    return environ
