"""One POST to an external receiver: no redirects, a deadline for everything, and public addresses only.

A host name is looked up once, and only the checked addresses are connected to, so that a later change of the name has
no effect.
"""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpcore

from domain.webhooks import is_public, url_fault

TIMEOUT_SECONDS = 15.0
# The maximum number of bytes read of a response, which is not used; most receivers expect it to be read.
_MAX_RESPONSE_BYTES = 65_536

Resolve = Callable[[str, int], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a POST: the receiver's status code, or the reason why there is none."""

    status_code: int | None
    error: str | None = None


class NotSent(Exception):
    """The reason why a POST was not made, written for the owner of the receiver."""


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, in the machine's order of preference; raises OSError if there are none."""
    address_infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    ip_addresses = [str(socket_address[0]) for _, _, _, _, socket_address in address_infos]
    # A host may have an address several times.
    return list(dict.fromkeys(ip_addresses))


@dataclass(frozen=True, slots=True)
class WebhookClient:
    """Posts to receivers, each time within `seconds` in total; `resolve` returns the addresses of a host."""

    allows_http: bool = False
    allows_private: bool = False
    ports: Collection[int] | None = None
    seconds: float = TIMEOUT_SECONDS
    resolve: Resolve = resolve
    ssl_context: ssl.SSLContext | None = None

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Post the body; every failure is described in the reply."""
        try:
            return Reply(self._post_body(url, headers, body))
        except NotSent as reason:
            return Reply(status_code=None, error=str(reason))
        except httpcore.TimeoutException:
            return Reply(status_code=None, error=f"The receiver did not respond within {self.seconds:g} seconds.")
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            return Reply(status_code=None, error=_failure_text(error))

    def _post_body(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """Post the body; return the status code. Raises NotSent and exceptions of httpcore."""
        # The settings of allowed URLs may have changed since the URL was saved.
        fault = url_fault(url, self.allows_http, self.allows_private, self.ports)
        if fault is not None:
            raise NotSent(f"The URL {fault}.")
        network = _CheckedNetwork(_Deadline(self.seconds), self.resolve, self.allows_private)
        parts = urlsplit(url)
        request_headers = [*headers.items(), ("Host", parts.netloc), ("Connection", "close")]
        context = self.ssl_context or _usual_ssl_context()
        with (
            httpcore.ConnectionPool(ssl_context=context, network_backend=network) as pool,
            pool.stream("POST", _httpcore_url(parts), headers=request_headers, content=body) as response,
        ):
            _read_beginning(response)
            return response.status


def _failure_text(error: Exception) -> str:
    """The kind of an error in words; the text of the error could reveal the network around the server."""
    causes: list[BaseException] = [error]
    while causes[-1].__cause__ is not None or causes[-1].__context__ is not None:
        causes.append(causes[-1].__cause__ or causes[-1].__context__ or error)
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return "The receiver's certificate is not valid."
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return "The encrypted connection to the receiver failed."
    if isinstance(error, httpcore.ConnectError):
        return "The receiver takes no connections."
    if isinstance(error, httpcore.ProtocolError):
        return "The receiver's response is not HTTP."
    return "The connection to the receiver was lost."


def _httpcore_url(parts: SplitResult) -> httpcore.URL:
    """The URL for httpcore, made of parts: httpcore's parser drops the path after a semicolon."""
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return httpcore.URL(scheme=parts.scheme, host=parts.hostname or "", port=parts.port, target=target)


@cache
def _usual_ssl_context() -> ssl.SSLContext:
    return httpcore.default_ssl_context()


def _read_beginning(response: httpcore.Response) -> None:
    """Read the beginning of the response; errors do not matter, as the status was read before."""
    remaining_bytes = _MAX_RESPONSE_BYTES
    try:
        for part in response.iter_stream():
            remaining_bytes -= len(part)
            if remaining_bytes <= 0:
                break
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError):
        pass


class _Deadline:
    """The deadline of one POST."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining_seconds(self) -> float:
        """The remaining seconds; raises a TimeoutException if there are none."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise httpcore.TimeoutException
        return seconds


class _CheckedNetwork(httpcore.NetworkBackend):
    """Connects only to allowed addresses, and limits all steps by one deadline."""

    def __init__(self, deadline: _Deadline, resolve: Resolve, allows_private: bool) -> None:
        self._deadline = deadline
        self._resolve = resolve
        self._allows_private = allows_private
        self._network = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first allowed address that accepts the connection; the deadline replaces `timeout`."""
        all_addresses = self._look_up(host, port)
        addresses = [address for address in all_addresses if self._allows_private or is_public(address)]
        if not addresses:
            raise NotSent("The host has no address that is public.")
        for index, address in enumerate(addresses):
            # Each address gets an equal share of the remaining time.
            seconds = self._deadline.remaining_seconds() / (len(addresses) - index)
            try:
                stream = self._network.connect_tcp(address, port, timeout=seconds)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last_error = error
            else:
                return _TimedStream(stream, self._deadline)
        raise last_error

    def _look_up(self, host: str, port: int) -> Sequence[str]:
        """Look up the host in a thread, since the look-up of the system has no timeout; abandon it at the deadline."""
        result: Future[Sequence[str]] = Future()

        def look_up() -> None:
            try:
                result.set_result(self._resolve(host, port))
            except Exception as error:
                result.set_exception(error)

        threading.Thread(target=look_up, daemon=True, name="look-up").start()
        try:
            return result.result(self._deadline.remaining_seconds())
        except TimeoutError:
            raise httpcore.TimeoutException from None
        except (OSError, UnicodeError):
            raise NotSent("The host name was not found.") from None


class _TimedStream(httpcore.NetworkStream):
    """A stream whose every step ends at the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: _Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read the available bytes until the deadline, whatever the `timeout`."""
        return self._stream.read(max_bytes, self._deadline.remaining_seconds())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all bytes until the deadline, whatever the `timeout`; the deadline is that of the whole message."""
        connection: socket.socket = self._stream.get_extra_info("socket")
        while buffer:
            connection.settimeout(self._deadline.remaining_seconds())
            try:
                buffer = buffer[connection.send(buffer) :]
            except TimeoutError:
                raise httpcore.TimeoutException from None
            except OSError as error:
                raise httpcore.WriteError(error) from error

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Continue with encryption."""
        return _TimedStream(
            self._stream.start_tls(ssl_context, server_hostname, self._deadline.remaining_seconds()), self._deadline
        )

    def get_extra_info(self, info: str) -> Any:
        """The information of the wrapped stream."""
        return self._stream.get_extra_info(info)
