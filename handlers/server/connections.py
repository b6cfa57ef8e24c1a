"""Limits of connections: gunicorn's ASGI worker, with limits for clients that connect and stay silent.

gunicorn waits forever for the first request of a connection, and accepts connections until no descriptor is left. Here
requests and the reading of responses have time limits. A process that has its maximum number of connections closes the
one that has been silent longest to accept a new one. If it has too many unsent bytes of responses, it closes
connections whose clients do not read, then those with the largest responses. gunicorn also closes connections as soon
as a signal ends the worker. Here the responses announce the end first.
"""

from __future__ import annotations

import logging
import re
import resource
import sys
import time
import uuid
from asyncio import TimerHandle, Transport
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

from gunicorn.asgi import parser
from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.workers import gasgi

from handlers.http.problems import MEDIA_TYPE, problem_body

HEAD_SECONDS = 10.0
# The time for a client to read the response, in addition to the deadline of the request.
READING_SECONDS = 60.0
# The bytes of responses that a process keeps for clients that have not read them yet. They take twice as much memory.
MAX_UNSENT_BYTES = 64 * 1024**2
# Clients that have read nothing for this time are the first whose connections are closed for unsent bytes.
NOT_READING_SECONDS = 5.0
# The time and the bytes for which the rest of a refused body is discarded. A client whose connection is closed while it
# sends the body can lose the response.
DISCARDING_SECONDS = 2.0
MAX_DISCARDED_BYTES = 16 * 1024**2
# A body may have this number of chunks, and one more for each `_MIN_CHUNK_BYTES`: each costs time of the event loop.
_FREE_CHUNKS = 1_000
_MIN_CHUNK_BYTES = 256
# Descriptors for other things: database, logs, metrics. And asyncio accepts a hundred connections at once before one of
# them can be closed, and closes them in its next iteration, after it has accepted another hundred.
_RESERVED_DESCRIPTORS = 400
_MIN_CONNECTIONS = 16
_REPORT_SECONDS = 60.0
# The time for which responses announce the end of a worker before it ends; sending a batch of them takes much less.
_ANNOUNCING_SECONDS = 0.1

# The errors of gunicorn whose message is only a part of the request.
_SENTENCES = (
    (parser.InvalidRequestMethod, 'The method "{}" is not a word of 3 to 20 capital letters.'),
    (parser.InvalidHTTPVersion, 'The request line ends in "{}" instead of HTTP/1.1 or HTTP/1.0.'),
    (parser.InvalidHeaderName, 'No header can have the name "{}" here.'),
    (parser.UnsupportedTransferCoding, 'The Transfer-Encoding "{}" is not supported.'),
)
_MAX_QUOTED = 50
# The beginning of a URL that a request names in full.
_ORIGIN = re.compile(rb"https?://[^/]*", re.IGNORECASE)
_STATUSES = frozenset(HTTPStatus)

_log = logging.getLogger("loyalty.connections")


def connection_limit(limit: int) -> int:
    """The maximum number of connections of a process: `limit`, or less if the process has too few descriptors."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return limit
    return max(_MIN_CONNECTIONS, min(limit, descriptors - _RESERVED_DESCRIPTORS))


class Connection(ASGIProtocol):  # type: ignore[misc]
    """One connection; it is silent while no complete request has arrived.

    It has been silent since the last response or since it was opened, and after the head of a request, since the last
    byte of the body.
    """

    worker: LimitedWorker
    _time_limit: TimerHandle | None = None
    _has_received_bytes = False
    # Of the body that is received now.
    _chunk_count = 0
    _chunk_bytes = 0
    # Of a refused body; None while the connection is not being closed.
    _discarded_bytes: int | None = None

    def connection_made(self, transport: Transport) -> None:
        """Start the time limit of the first request, and close another connection if there are too many."""
        super().connection_made(transport)
        self._arm(HEAD_SECONDS, self._end_late_head)
        self.worker.silent[self] = None
        self.worker.limit_connections(self)

    def data_received(self, data: bytes) -> None:
        """Receive bytes of a request, or discard those of a refused body."""
        if self._discarded_bytes is not None:
            self._discard(len(data))
            return
        self._has_received_bytes = True
        super().data_received(data)
        if self._body_receiver is not None and self in self.worker.silent:
            self._mark_as_silent()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove a closed connection from the silent ones, and cancel its time limit."""
        self._disarm()
        self.worker.silent.pop(self, None)
        self.worker.unread.pop(self, None)
        super().connection_lost(exc)
        # End the wait of an unsent response, which keeps its memory until gunicorn cancels it some seconds later.
        self.resume_writing()

    def pause_writing(self) -> None:
        """Have the response wait for its client, and close other connections if too many bytes are unsent."""
        super().pause_writing()
        self.worker.add_unread(self)

    def resume_writing(self) -> None:
        """Continue with the response after its client has read nearly everything."""
        self.worker.unread.pop(self, None)
        super().resume_writing()

    def unsent_bytes(self) -> int:
        """The number of bytes of responses that wait for the client."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def refuse(self) -> None:
        """Respond that there are too many connections, and close the connection."""
        self._send_error_response(503, "The server has too many connections. Try again.")
        self._close_transport()

    def abort(self) -> None:
        """Close the connection at once, without bytes that the client has not read yet."""
        self.worker.silent.pop(self, None)
        if self.transport is not None:
            self.transport.abort()

    def _on_headers_complete(self) -> Any:
        """Restart the time limit and the counts of chunks for the body of a request."""
        # Before `super()`, since that already completes a request without a body.
        self._mark_as_silent()
        self._chunk_count = self._chunk_bytes = 0
        return super()._on_headers_complete()

    def _is_websocket_upgrade(self, request: Any) -> bool:
        # Such a request gets a response by HTTP (RFC 9110, 7.8), with a request id and a line in the log.
        return False

    def _build_http_scope(self, request: Any, sockname: Any, peername: Any) -> dict[str, Any]:
        """Build the ASGI scope of a request; its path never contains a scheme and a host."""
        scope: dict[str, Any] = super()._build_http_scope(request, sockname, peername)
        if origin := _ORIGIN.match(scope["raw_path"]):
            # RFC 9112, 3.2.2: a client may name the whole URL, as it does for a proxy.
            scope["raw_path"] = scope["raw_path"][origin.end() :] or b"/"
            scope["path"] = unquote_to_bytes(scope["raw_path"]).decode("utf-8", "replace")
        return scope

    def _on_body(self, chunk: bytes) -> None:
        """Receive a part of the body; raises ParseError if the body has too many small chunks."""
        if self._callback_parser.is_chunked:
            self._chunk_count += 1
            self._chunk_bytes += len(chunk)
            if self._chunk_count > _FREE_CHUNKS + self._chunk_bytes // _MIN_CHUNK_BYTES:
                raise parser.ParseError(
                    f"The body has too many small chunks: after the first {_FREE_CHUNKS:,} chunks, send chunks of at "
                    f"least {_MIN_CHUNK_BYTES} bytes on average."
                )
        super()._on_body(chunk)

    def _on_message_complete(self) -> None:
        self.worker.silent.pop(self, None)
        super()._on_message_complete()

    def _mark_as_silent(self) -> None:
        """Move the connection to the end of the silent ones; restart the time limit of its request and response."""
        self.worker.silent.pop(self, None)
        self.worker.silent[self] = None
        self._arm(self.worker.request_seconds + READING_SECONDS, self.abort)

    def _arm_keepalive_timer(self) -> None:
        """Begin the silence after a response, in which gunicorn's timer limits the wait for the next request."""
        self._disarm()
        self._has_received_bytes = False
        self.worker.silent[self] = None
        super()._arm_keepalive_timer()

    def _will_close(self, request: Any, response_requires_close: bool) -> bool:
        # gunicorn closes a connection whose request body has not arrived when the response ends: announce that, too.
        if self._is_body_missing() or self.worker.is_ending:
            return True
        return bool(super()._will_close(request, response_requires_close))

    def _end_late_head(self) -> None:
        """Close the connection, after a response if a part of a request has arrived."""
        if self._has_received_bytes:
            self._send_error_response(408, f"The request's head did not arrive within {HEAD_SECONDS:.0f} seconds.")
        self._close_transport()

    def _is_body_missing(self) -> bool:
        return self._body_receiver is not None and not self._body_receiver._complete

    def _close_transport(self) -> None:
        """Close the connection; if a body has not arrived completely, discard the rest of it first."""
        if self._closed:
            return
        if self._is_body_missing() and self.transport is not None and self.transport.can_write_eof():
            self._begin_discarding()
            return
        # The transport waits until the client has read everything.
        self._arm(READING_SECONDS, self.abort)
        super()._close_transport()

    def _begin_discarding(self) -> None:
        """Send no more, and close the connection when the client ends it, or after some time or bytes."""
        self._closed = True
        self._discarded_bytes = 0
        self.worker.silent[self] = None
        self._arm(DISCARDING_SECONDS, self._end_discarding)
        self.transport.write_eof()
        self.transport.resume_reading()

    def _discard(self, count: int) -> None:
        """Count discarded bytes; close the connection if they are too many."""
        self._discarded_bytes = (self._discarded_bytes or 0) + count
        if self._discarded_bytes > MAX_DISCARDED_BYTES:
            self._end_discarding()

    def _end_discarding(self) -> None:
        """Close the connection; the transport waits until the client has read everything."""
        self._arm(READING_SECONDS, self.abort)
        self.transport.close()

    def _arm(self, seconds: float, then: Any) -> None:
        """Call `then` after some seconds, unless the limit is disarmed or armed again."""
        self._disarm()
        self._time_limit = self.worker.loop.call_later(seconds, then)

    def _disarm(self) -> None:
        if self._time_limit is not None:
            self._time_limit.cancel()
            self._time_limit = None

    def _get_reason_phrase(self, status: int) -> str:
        """The reason phrase of a status, also of one that gunicorn does not know, such as 431."""
        phrase = str(super()._get_reason_phrase(status))
        return HTTPStatus(status).phrase if phrase == "Unknown" and status in _STATUSES else phrase

    def _send_error_response(self, status: int, message: str, extra_headers: Any = ()) -> None:
        """Send an error of the protocol as a problem (RFC 9457), like all other errors."""
        request_id = str(uuid.uuid4())
        body = problem_body(status, _sentence(message, sys.exception()), request_id)
        own_headers = (("Content-Type", MEDIA_TYPE), ("Content-Length", str(len(body))), ("Connection", "close"))
        lines = [f"HTTP/1.1 {status} {self._get_reason_phrase(status)}"]
        lines += ["Cache-Control: no-store", f"X-Request-Id: {request_id}"]
        lines += [f"{name}: {value}" for name, value in (*own_headers, *extra_headers)]
        self._safe_write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)


def _sentence(message: str, error: BaseException | None) -> str:
    """The sentence that explains an error; `message` is the text of `error`, which is None if nothing was raised."""
    for error_class, sentence in _SENTENCES:
        if isinstance(error, error_class):
            return sentence.format(message if len(message) <= _MAX_QUOTED else f"{message[:_MAX_QUOTED]}...")
    return message if message.endswith(".") else f"{message}."


class LimitedWorker(gasgi.ASGIWorker):  # type: ignore[misc]
    """gunicorn's ASGI worker with limited connections; `worker_connections` is their maximum number."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.connection_limit = connection_limit(self.cfg.worker_connections)
        self.request_seconds: float = self.cfg.timeout
        self.is_ending = False
        # The connections without a complete request, as the keys of a dict: it keeps the longest silent one first.
        self.silent: dict[Connection, None] = {}
        # The connections whose responses wait for their clients: the unsent bytes, and when these last became fewer.
        self.unread: dict[Connection, tuple[int, float]] = {}
        self.max_unsent_bytes = MAX_UNSENT_BYTES
        self._closed_count = 0
        self._closed_unread_count = 0
        self._reported_at = 0.0

    def init_process(self) -> None:
        """Set the class of connections: gunicorn finds it by its name in the module of the worker."""
        gasgi.ASGIProtocol = Connection
        super().init_process()

    def handle_exit_signal(self) -> None:
        """Announce the end in all responses, then end.

        Without the delay, gunicorn would close connections whose last response did not announce the end, although the
        client may be sending the next request.
        """
        self.is_ending = True
        self.loop.call_later(_ANNOUNCING_SECONDS, super().handle_exit_signal)

    def limit_connections(self, newest: Connection) -> None:
        """If there are too many, close the one that has been silent longest.

        If no other one is silent, refuse the newest.
        """
        if self.nr_conns <= self.connection_limit:
            return
        # The newest connection is silent, too, and comes last.
        longest_silent = next(iter(self.silent))
        if longest_silent is newest:
            newest.refuse()
        else:
            longest_silent.abort()
        self._closed_count += 1
        self._report()

    def add_unread(self, newest: Connection) -> None:
        """Add a connection whose response waits to be read; close connections while there are too many unsent bytes.

        Clients that have read nothing for a while are closed first, then the largest unsent responses.
        """
        now = self.loop.time()
        for connection, (unsent_bytes, _) in [*self.unread.items()]:
            if connection.unsent_bytes() < unsent_bytes:
                self.unread[connection] = connection.unsent_bytes(), now
        self.unread[newest] = newest.unsent_bytes(), now
        excess = sum(unsent_bytes for unsent_bytes, _ in self.unread.values()) - self.max_unsent_bytes
        while excess > 0 and len(self.unread) > 1:
            slowest = max(self.unread, key=lambda connection: self._unsent_rank(connection, now))
            unsent_bytes, _ = self.unread.pop(slowest)
            excess -= unsent_bytes
            slowest.abort()
            self._closed_unread_count += 1
            self._report()

    def _unsent_rank(self, connection: Connection, now: float) -> tuple[bool, int]:
        """The rank of a connection among those to close for their unsent bytes; the highest is closed first."""
        unsent_bytes, changed_at = self.unread[connection]
        return now - changed_at >= NOT_READING_SECONDS, unsent_bytes

    def _report(self) -> None:
        """Log the numbers of closed connections, at most once a minute."""
        now = time.monotonic()
        if now - self._reported_at < _REPORT_SECONDS:
            return
        if self._closed_count:
            _log.warning(
                "%d connections were closed to accept others: %d are open, the maximum of a process",
                self._closed_count,
                self.connection_limit,
            )
        if self._closed_unread_count:
            _log.warning(
                "%d connections were closed whose clients read too slowly: a process keeps at most %d unsent bytes",
                self._closed_unread_count,
                self.max_unsent_bytes,
            )
        self._closed_count, self._closed_unread_count, self._reported_at = 0, 0, now
