"""Clients that connect and then send nothing, or too little, too late."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger

from handlers.server.connections import Connection, LimitedWorker
from tests.processes.fleet import kill_database
from tests.processes.loyalty import Server, status

MANY = 400


@pytest.fixture(scope="module")
def server(shared_home):
    """A server with few descriptors, which lets the body of a request take 1.5 seconds."""
    arguments = ("--workers", "1", "--no-worker")
    server = Server(shared_home, *arguments, descriptors=500, LOYALTY_REQUEST_TIMEOUT_MS="1500")
    server.greeting()
    yield server
    server.stop()
    server.process.stdout.close()


@pytest.fixture(scope="module")
def late_connections(server):
    """Two connections that send no whole head; opened together, so that the tests wait once."""
    with connect(server) as silent, connect(server) as incomplete:
        incomplete.sendall(b"GET /health/live HTTP/1.1\r\nHost: here\r\n")
        yield silent, incomplete


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def read_response(connection: socket.socket) -> tuple[int, dict[str, str], dict]:
    """The status, headers and JSON of a response that ends with its connection."""
    received = b""
    while part := connection.recv(65536):
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split()[1]), headers, json.loads(body)


def until(happened: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_silent_connections_are_closed_to_accept_others(server):
    silent = [connect(server) for _ in range(MANY)]
    for _ in range(5):
        assert status(f"{server.url}/health/ready") == 200
    log = server.log.read_text()
    assert log.count("were closed to accept others") == 1
    assert "Too many open files" not in log
    for connection in silent:
        connection.close()


def test_a_connection_that_never_speaks_is_closed(late_connections):
    silent, _ = late_connections
    assert silent.recv(100) == b""


def test_a_head_that_does_not_end_is_answered_408(late_connections):
    _, incomplete = late_connections
    status_code, headers, problem = read_response(incomplete)
    assert (status_code, problem["type"]) == (408, "/problems/request-timeout")
    assert headers["content-type"] == "application/problem+json"


def test_a_body_that_does_not_come_is_answered_408(server):
    with connect(server) as connection:
        connection.sendall(
            b"POST /v2/oauth/token HTTP/1.1\r\nHost: here\r\nContent-Length: 10\r\n"
            b"Content-Type: application/x-www-form-urlencoded\r\n\r\nclient"
        )
        status_code, headers, problem = read_response(connection)
    assert (status_code, problem["type"]) == (408, "/problems/request-timeout")
    assert headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("head", "expected_status", "kind"),
    [
        (b"GET / HTTP/9.9\r\n\r\n", 400, "invalid-request"),
        (b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\n\r\n", 414, "uri-too-long"),
        (b"GET / HTTP/1.1\r\nX-Much: " + b"a" * 100_000 + b"\r\n\r\n", 431, "http-error"),
    ],
)
def test_bytes_that_are_no_request_get_a_problem(server, head, expected_status, kind):
    with connect(server) as connection:
        connection.sendall(head)
        status_code, headers, problem = read_response(connection)
    assert (status_code, problem["status"], problem["type"]) == (expected_status, expected_status, f"/problems/{kind}")
    assert headers["content-type"] == "application/problem+json"
    assert headers["cache-control"] == "no-store"


def test_the_embedded_database_is_started_again_when_it_dies(server):
    kill_database(server.home)
    until(lambda: "was started again" in server.log.read_text())
    until(lambda: status(f"{server.url}/health/ready") == 200)


def test_a_worker_that_ends_answers_the_next_request_of_a_connection_before_it_closes():
    first, second = asyncio.run(responses_around_the_end())
    assert b"connection: close" not in first.lower()
    assert b"connection: close" in second.lower()


async def responses_around_the_end() -> tuple[bytes, bytes]:
    """The responses to two requests of a connection; the signal to end comes just after the first one was sent."""
    config = Config()
    worker = LimitedWorker(1, 1, [], None, 30, config, Logger(config))
    worker.loop = asyncio.get_running_loop()

    async def answer_and_end(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
        worker.handle_exit_signal()

    worker.asgi = answer_and_end
    server = await worker.loop.create_server(lambda: Connection(worker), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    responses = []
    for _ in range(2):
        writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        responses.append(await reader.readuntil(b"ok"))
    assert await reader.read() == b""
    writer.close()
    server.close()
    return responses[0], responses[1]
