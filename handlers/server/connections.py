"""Limits of connections: gunicorn's ASGI worker, with limits for clients that connect and stay silent.

gunicorn waits for ever for the first request of a connection and accepts connections until no descriptor is left. Here
a request has to begin, to arrive and to be taken in time, and a process that has as many connections as it may have
accepts a new one by closing the one that has been silent longest. gunicorn also closes connections as soon as a signal
ends the worker. Here the responses announce it first.
"""

from __future__ import annotations

import logging
import resource
import time
import uuid
from asyncio import TimerHandle, Transport
from typing import Any

from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.workers import gasgi

from handlers.http.problems import MEDIA_TYPE, problem_body

HEAD_SECONDS = 10.0
# Beyond the deadline of a request: how long a client may take to read the response.
TAKING_SECONDS = 60.0
# Descriptors that are no connections: database, logs, metrics. And asyncio accepts a hundred connections in one go,
# before the first of them can be closed, and closes them in its next turn, when it has accepted as many again.
_RESERVED_DESCRIPTORS = 400
_LEAST_CONNECTIONS = 16
_REPORT_SECONDS = 60.0
# How long responses announce the end of a worker before it begins: many times as long as sending a batch of them takes.
_ANNOUNCING_SECONDS = 0.1

_log = logging.getLogger("loyalty.connections")


def connection_limit(limit: int) -> int:
    """The most connections that a process may hold: `limit`, as far as its descriptors allow."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return limit
    return max(_LEAST_CONNECTIONS, min(limit, descriptors - _RESERVED_DESCRIPTORS))


class Connection(ASGIProtocol):  # type: ignore[misc]
    """One connection; it is silent until the head of a request is complete."""

    worker: LimitedWorker
    _limit: TimerHandle | None = None
    _has_spoken = False

    def connection_made(self, transport: Transport) -> None:
        """Start the time limit of the first request, and close another connection if there are too many."""
        super().connection_made(transport)
        self._arm(HEAD_SECONDS, self._head_is_late)
        self.worker.silent[self] = None
        self.worker.make_room(self)

    def data_received(self, data: bytes) -> None:
        """Take the bytes of a request."""
        self._has_spoken = True
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._disarm()
        self.worker.silent.pop(self, None)
        super().connection_lost(exc)

    def refuse(self) -> None:
        """Send a response that there are too many connections, and close."""
        self._send_error_response(503, "The server has too many connections. Try again.")
        self._close_transport()

    def close_silently(self) -> None:
        """Close a connection that has no request in progress."""
        self.worker.silent.pop(self, None)
        self._close_transport()

    def _on_headers_complete(self) -> Any:
        self.worker.silent.pop(self, None)
        self._arm(self.worker.request_seconds + TAKING_SECONDS, self._abort)
        return super()._on_headers_complete()

    def _arm_keepalive_timer(self) -> None:
        # Called when a response is sent and the next request may come; gunicorn's timer bounds the wait for it.
        self._disarm()
        self._has_spoken = False
        self.worker.silent[self] = None
        super()._arm_keepalive_timer()

    def _will_close(self, request: Any, response_requires_close: bool) -> bool:
        return self.worker.is_ending or bool(super()._will_close(request, response_requires_close))

    def _head_is_late(self) -> None:
        if self._has_spoken:
            self._send_error_response(408, f"The request's head did not arrive within {HEAD_SECONDS:.0f} seconds.")
        self.close_silently()

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _arm(self, seconds: float, then: Any) -> None:
        self._disarm()
        self._limit = self.worker.loop.call_later(seconds, then)

    def _disarm(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _send_error_response(self, status: int, message: str, extra_headers: Any = ()) -> None:
        """Send a fault of the protocol as a problem, like all others (RFC 9457)."""
        body = problem_body(status, message, str(uuid.uuid4()))
        fixed = (("Content-Type", MEDIA_TYPE), ("Content-Length", str(len(body))), ("Connection", "close"))
        lines = [f"HTTP/1.1 {status} {self._get_reason_phrase(status)}", "Cache-Control: no-store"]
        lines += [f"{name}: {value}" for name, value in (*fixed, *extra_headers)]
        self._safe_write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)


class LimitedWorker(gasgi.ASGIWorker):  # type: ignore[misc]
    """gunicorn's ASGI worker with limited connections; `worker_connections` is their number."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.connection_limit = connection_limit(self.cfg.worker_connections)
        self.request_seconds: float = self.cfg.timeout
        self.is_ending = False
        # In the order in which they fell silent.
        self.silent: dict[Connection, None] = {}
        self._closed_for_room = 0
        self._reported_at = 0.0

    def init_process(self) -> None:
        """Use the limited connections: the worker finds its class by the name in its module."""
        gasgi.ASGIProtocol = Connection
        super().init_process()

    def handle_exit_signal(self) -> None:
        """Announce the end in all responses, then end.

        At once, gunicorn would close connections whose last response did not announce it: the next request may be on
        its way.
        """
        self.is_ending = True
        self.loop.call_later(_ANNOUNCING_SECONDS, super().handle_exit_signal)

    def make_room(self, newest: Connection) -> None:
        """Close the connection that has been silent longest if there are too many, else refuse the newest one."""
        if self.nr_conns <= self.connection_limit:
            return
        longest = next(iter(self.silent))
        if longest is newest:
            newest.refuse()
        else:
            longest.close_silently()
        self._closed_for_room += 1
        self._report()

    def _report(self) -> None:
        now = time.monotonic()
        if now - self._reported_at >= _REPORT_SECONDS:
            _log.warning(
                "%d connections were closed to accept others: %d are open, the maximum of a process",
                self._closed_for_room,
                self.connection_limit,
            )
            self._closed_for_room, self._reported_at = 0, now
