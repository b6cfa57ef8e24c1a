"""Clients that send a whole body before they read get the response that refuses it."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

import pytest

from handlers.server.connections import MAX_DISCARDED_BYTES
from tests.processes.loyalty import Server

HEAD = b"POST /v2/oauth/token HTTP/1.1\r\nHost: here\r\nContent-Type: application/x-www-form-urlencoded\r\n"


@pytest.fixture(scope="module")
def server(shared_home):
    server = Server(shared_home, "--workers", "1", "--no-worker")
    server.greeting()
    yield server
    server.stop()
    server.process.stdout.close()


def connect(server: Server) -> socket.socket:
    """A new connection to the server."""
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def read_all(connection: socket.socket) -> bytes:
    """The bytes that arrive until the server closes the connection."""
    received_bytes = b""
    while part := connection.recv(65536):
        received_bytes += part
    return received_bytes


def test_a_client_that_sends_a_too_large_body_to_its_end_reads_the_refusal(server):
    # Larger than the server accepts.
    body = bytes(2 * 1024**2)
    for _ in range(20):
        with connect(server) as connection:
            connection.sendall(HEAD + f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode())
            # The server has refused the body before its end is sent.
            time.sleep(0.05)
            connection.sendall(body)
            assert read_all(connection).startswith(b"HTTP/1.1 413 ")


def test_a_connection_of_a_refused_body_is_closed_after_some_bytes(server):
    with connect(server) as connection:
        connection.sendall(HEAD + f"Content-Length: {10 * MAX_DISCARDED_BYTES}\r\n\r\n".encode())
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            connection.sendall(bytes(10 * MAX_DISCARDED_BYTES))


def test_a_connection_of_a_refused_body_is_closed_after_some_seconds(server):
    with connect(server) as connection:
        connection.sendall(HEAD + f"Content-Length: {10 * MAX_DISCARDED_BYTES}\r\n\r\n".encode())
        assert read_all(connection).startswith(b"HTTP/1.1 413 ")
        start = time.monotonic()
        with suppress(BrokenPipeError, ConnectionResetError):
            while time.monotonic() < start + 30:
                connection.sendall(b"x")
                time.sleep(0.1)
        assert 1 < time.monotonic() - start < 20
