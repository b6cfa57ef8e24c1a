"""A receiver of webhooks on this machine, whose responses a test chooses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.contract.messages import faults_of_message


@dataclass(frozen=True)
class Received:
    """One request; the names of headers are in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes


Response = Callable[["Exchange"], None]


@dataclass
class Exchange:
    """One request that waits for its response."""

    handler: BaseHTTPRequestHandler
    request: Received
    receiver: Receiver

    def respond(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Send the response."""
        self.handler.send_response(status)
        self.handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.handler.send_header(name, value)
        self.handler.end_headers()
        self.handler.wfile.write(body)


@dataclass
class Receiver:
    """The requests so far, and the responses to the next ones: those of `responses` in turn, then `usual_response`."""

    url: str = ""
    received: list[Received] = field(default_factory=list)
    # Violations of the document that describes the messages; none is expected.
    faults: list[str] = field(default_factory=list)
    responses: list[Response] = field(default_factory=list)
    usual_response: Response = field(default=lambda exchange: exchange.respond(204))
    closing: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, request: Received) -> Response:
        """Record a request; return the response to it."""
        with self._lock:
            self.received.append(request)
            return self.responses.pop(0) if self.responses else self.usual_response


def status(code: int, **headers: str) -> Response:
    """A response with a status."""
    return lambda exchange: exchange.respond(code, b"{}", **headers)


def hang(exchange: Exchange) -> None:
    """Send no response until the receiver closes."""
    exchange.receiver.closing.wait(300)


def drip(exchange: Exchange) -> None:
    """Send the response one byte at a time, far slower than any client waits."""
    connection = exchange.handler.connection
    for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 10_000:
        if exchange.receiver.closing.is_set():
            return
        connection.sendall(bytes([byte]))
        time.sleep(0.02)


@contextmanager
def receiver(wrap: Callable[[Any], Any] | None = None) -> Iterator[Receiver]:
    """Run a receiver; `wrap` may encrypt its socket."""
    hook = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = Received(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            # Requests without this header are sent by tests themselves.
            if "ce-type" in request.headers:
                hook.faults += faults_of_message(request.headers, request.body)
            with suppress(OSError):
                hook.take(request)(Exchange(self, request, hook))
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 100

        def handle_error(self, *_: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if wrap is not None:
        server.socket = wrap(server.socket)
    scheme = "http" if wrap is None else "https"
    hook.url = f"{scheme}://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        hook.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
    assert hook.faults == []
