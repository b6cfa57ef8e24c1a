"""Connections whose clients send nothing, or only a part of a request."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger

from handlers.server.connections import Connection, LimitedWorker
from tests.processes.fleet import kill_database
from tests.processes.loyalty import Server, status


@pytest.fixture(scope="module")
def server(shared_home):
    """A server that may have 500 open files, and waits 1.5 seconds for the body of a request."""
    arguments = ("--workers", "1", "--no-worker")
    server = Server(shared_home, *arguments, descriptors=500, LOYALTY_REQUEST_TIMEOUT_MS="1500")
    server.greeting()
    yield server
    server.stop()
    server.process.stdout.close()


@pytest.fixture(scope="module")
def late_connections(server):
    """A silent connection and one with half a request head, opened together, so that the tests wait only once."""
    with connect(server) as silent, connect(server) as incomplete:
        incomplete.sendall(b"GET /health/live HTTP/1.1\r\nHost: here\r\n")
        yield silent, incomplete


def connect(server: Server) -> socket.socket:
    """A new connection to the server, on which nothing was sent yet."""
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def read_response(connection: socket.socket) -> tuple[int, dict[str, str], dict]:
    """Read a response until the server closes the connection; returns its status, headers and JSON."""
    received_bytes = b""
    while part := connection.recv(65536):
        received_bytes += part
    head, _, body = received_bytes.partition(b"\r\n\r\n")
    status_line, *header_lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in header_lines)}
    return int(status_line.split()[1]), headers, json.loads(body)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true; fail after two minutes."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_silent_connections_are_closed_when_the_server_needs_descriptors(server):
    # 400 connections, besides the files of the server itself, come near its limit of 500 descriptors.
    silent_connections = [connect(server) for _ in range(400)]
    for _ in range(5):
        assert status(f"{server.url}/health/ready") == 200
    log = server.log.read_text()
    assert log.count("were closed to accept others") == 1
    assert "Too many open files" not in log
    for connection in silent_connections:
        connection.close()


def test_a_connection_without_a_request_is_closed(late_connections):
    silent, _ = late_connections
    assert silent.recv(100) == b""


def test_an_incomplete_request_head_gets_408(late_connections):
    _, incomplete = late_connections
    status_code, headers, problem = read_response(incomplete)
    assert (status_code, problem["type"]) == (408, "/problems/request-timeout")
    assert headers["content-type"] == "application/problem+json"


def test_an_incomplete_request_body_gets_408(server):
    with connect(server) as connection:
        connection.sendall(
            b"POST /v2/oauth/token HTTP/1.1\r\nHost: here\r\nContent-Length: 10\r\n"
            b"Content-Type: application/x-www-form-urlencoded\r\n\r\nclient"
        )
        status_code, headers, problem = read_response(connection)
    assert (status_code, problem["type"]) == (408, "/problems/request-timeout")
    assert headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("head", "expected_status", "problem_type"),
    [
        (b"GET / HTTP/9.9\r\n\r\n", 400, "invalid-request"),
        (b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\n\r\n", 414, "uri-too-long"),
        (b"GET / HTTP/1.1\r\nX-Much: " + b"a" * 100_000 + b"\r\n\r\n", 431, "headers-too-large"),
    ],
    ids=["unknown version of HTTP", "long path", "long header"],
)
def test_invalid_requests_get_a_problem(server, head, expected_status, problem_type):
    with connect(server) as connection:
        connection.sendall(head)
        status_code, headers, problem = read_response(connection)
    assert (status_code, problem["status"], problem["type"]) == (
        expected_status,
        expected_status,
        f"/problems/{problem_type}",
    )
    assert headers["content-type"] == "application/problem+json"
    assert headers["cache-control"] == "no-store"
    assert headers["x-request-id"] == problem["instance"]


def test_too_large_headers_get_the_reason_phrase_of_the_status(server):
    with connect(server) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX-Much: " + b"a" * 100_000 + b"\r\n\r\n")
        response = connection.recv(65536)
    assert response.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")


@pytest.mark.parametrize(
    ("head", "detail"),
    [
        (b"get / HTTP/1.1", 'The method "get" is not a word of 3 to 20 capital letters.'),
        (
            b"A" * 1000 + b" / HTTP/1.1",
            f'The method "{"A" * 50}..." is not a word of 3 to 20 capital letters.',
        ),
        (b"GET / HTTP/1.2", 'The request line ends in "HTTP/1.2" instead of HTTP/1.1 or HTTP/1.0.'),
        (b"GET /a b HTTP/1.1", 'The request line ends in "b HTTP/1.1" instead of HTTP/1.1 or HTTP/1.0.'),
        (b"GET / HTTP/1.1\r\nX-A : b", 'No header can have the name "X-A " here.'),
        (b"GET / HTTP/1.1\r\n: b", 'No header can have the name "" here.'),
        (b"GET / HTTP/1.1\r\nXA", "Missing colon in header."),
    ],
    ids=["lower case", "long method", "version", "space in the path", "space in a name", "no name", "no colon"],
)
def test_an_invalid_request_head_is_explained_by_a_sentence(server, head, detail):
    with connect(server) as connection:
        connection.sendall(head + b"\r\n\r\n")
        _, _, problem = read_response(connection)
    assert problem["detail"] == detail


@pytest.mark.parametrize(
    ("url", "expected_status"),
    [(b"http://here/health/live", 200), (b"HTTPS://here:80/health/%6Cive?a=b", 200), (b"http://here/v2/nothing", 404)],
)
def test_a_request_may_name_the_whole_url(server, url, expected_status):
    with connect(server) as connection:
        connection.sendall(b"GET " + url + b" HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        status_code, _, _ = read_response(connection)
    assert status_code == expected_status


def test_a_request_to_upgrade_to_a_websocket_gets_a_problem(server):
    upgrade = b"Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    with connect(server) as connection:
        connection.sendall(b"GET /v2/members HTTP/1.1\r\nHost: here\r\n" + upgrade + key + b"\r\n")
        status_code, headers, problem = read_response(connection)
    assert (status_code, problem["type"]) == (401, "/problems/unauthorized")
    assert headers["x-request-id"] == problem["instance"]


def test_a_response_before_the_body_of_its_request_announces_the_end_of_the_connection(server):
    with connect(server) as connection:
        # The two bytes of the body are not sent.
        connection.sendall(b"POST /v2/nothing HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\n")
        status_code, headers, _ = read_response(connection)
    assert (status_code, headers.get("connection")) == (404, "close")


def test_a_connection_stays_open_after_a_refused_request_with_its_body(server):
    refused_request = b"POST /v2/nothing HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\n{}"
    last_request = b"GET /health/live HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
    with connect(server) as connection:
        connection.sendall(refused_request)
        refusal = connection.recv(65536)
        connection.sendall(last_request)
        status_code, _, _ = read_response(connection)
    assert refusal.startswith(b"HTTP/1.1 404")
    assert b"connection: close" not in refusal.lower()
    assert status_code == 200


def test_a_server_restarts_its_embedded_database_when_it_was_killed(server):
    kill_database(server.home)
    wait_until(lambda: "was started again" in server.log.read_text())
    wait_until(lambda: status(f"{server.url}/health/ready") == 200)


def test_a_worker_that_ends_serves_one_more_request_of_a_connection_before_it_closes_it():
    response_before_end, response_after_end = asyncio.run(responses_around_the_end())
    assert b"connection: close" not in response_before_end.lower()
    assert b"connection: close" in response_after_end.lower()


async def responses_around_the_end() -> tuple[bytes, bytes]:
    """The responses to two requests on one connection; the worker is asked to end directly after the first response."""
    config = Config()
    worker = LimitedWorker(1, 1, [], None, 30, config, Logger(config))
    worker.loop = asyncio.get_running_loop()

    async def respond_and_end(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
        worker.handle_exit_signal()

    worker.asgi = respond_and_end
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


def test_connections_whose_bodies_do_not_arrive_are_closed_for_others():
    # d and e need the places of b and c, whose bodies have made no progress for the longest time.
    assert asyncio.run(end_of_connections_with_late_bodies()) == {
        "a": b"ok",
        "b": b"",
        "c": b"",
        "d": b"ok",
        "e": b"ok",
    }


async def end_of_connections_with_late_bodies() -> dict[str, bytes]:
    """The last bytes that the server sends to five connections, of which it may have three at once.

    First a, b and c send one of three bytes each, then a sends its second byte. Then d and e connect and send whole
    requests. At the end a sends its third byte. The result is b"" for a connection that gets no response.
    """
    worker, server = await body_reader()
    worker.connection_limit = 3
    clients = {}

    async def connect_and_send(name: str, data: bytes) -> None:
        clients[name] = await asyncio.open_connection(*server.sockets[0].getsockname())
        clients[name][1].write(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\n\r\n" + data)

    for name in ("a", "b", "c"):
        await connect_and_send(name, b"1")
        assert await worker.received.get() == b"1"
    clients["a"][1].write(b"2")
    assert await worker.received.get() == b"2"
    ends = {}
    for name in ("d", "e"):
        await connect_and_send(name, b"123")
        ends[name] = (await clients[name][0].readuntil(b"\r\n\r\nok"))[-2:]
    clients["a"][1].write(b"3")
    ends["a"] = (await clients["a"][0].readuntil(b"\r\n\r\nok"))[-2:]
    for name in ("b", "c"):
        ends[name] = await clients[name][0].read()
    for _, writer in clients.values():
        writer.close()
    server.close()
    return ends


async def body_reader() -> tuple[LimitedWorker, asyncio.Server]:
    """A worker that responds with "ok" after the whole body, and its server; `received` gets each part before that."""
    config = Config()
    worker = LimitedWorker(1, 1, [], None, 30, config, Logger(config))
    worker.loop = asyncio.get_running_loop()
    worker.received = asyncio.Queue()

    async def respond_after_body(scope, receive, send):
        while (message := await receive()).get("more_body"):
            worker.received.put_nowait(message["body"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    worker.asgi = respond_after_body
    return worker, await worker.loop.create_server(lambda: Connection(worker), "127.0.0.1", 0)


def test_a_body_in_small_chunks_is_refused():
    # 1,000 chunks may be of any size, and one more for each 256 bytes of the body: so 1,003 chunks of one byte.
    small_chunk, large_chunk = b"1\r\na\r\n", b"200\r\n" + b"a" * 512 + b"\r\n"
    assert asyncio.run(response_to_chunks(1_003 * small_chunk)).endswith(b"\r\n\r\nok")
    # The 512 bytes of the large chunk allow two more chunks: itself and another small one.
    assert asyncio.run(response_to_chunks(1_003 * small_chunk + large_chunk + small_chunk)).endswith(b"\r\n\r\nok")
    problem = asyncio.run(response_to_chunks(1_004 * small_chunk))
    assert problem.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert json.loads(problem.partition(b"\r\n\r\n")[2])["detail"] == (
        "The body has too many small chunks: after the first 1,000 chunks, "
        "send chunks of at least 256 bytes on average."
    )


async def response_to_chunks(chunks: bytes) -> bytes:
    """The response to the second of two requests with a body of these chunks, or to the first if it ends with that."""
    _, server = await body_reader()
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    response = b""
    with suppress(asyncio.IncompleteReadError):
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            response = head + await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))
    writer.close()
    server.close()
    return response


def test_a_slow_upload_is_not_cut_off():
    assert asyncio.run(response_to_a_slow_body()) == b"ok"


async def response_to_a_slow_body() -> bytes:
    """The last bytes of the response to a body whose three bytes come 80 seconds apart on the clock of the event loop.

    Without bytes, the server would end the connection after 90 seconds: 30 for the request, 60 for the response.
    """
    worker, server = await body_reader()
    real_time, ahead = worker.loop.time, 0
    worker.loop.time = lambda: real_time() + ahead
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\n\r\n")
    for byte in (b"1", b"2"):
        writer.write(byte)
        assert await worker.received.get() == byte
        ahead += 80
    writer.write(b"3")
    response = await reader.read(200)
    writer.close()
    server.close()
    return response[-2:]


UNREAD_BYTES = 60_000


def test_a_connection_whose_client_does_not_read_is_closed_for_others():
    # The client gets only a part of its response.
    assert asyncio.run(bytes_after_another_connection()) < UNREAD_BYTES


async def bytes_after_another_connection() -> int:
    """The number of bytes that a client gets of a response of `UNREAD_BYTES`.

    Another client takes the only connection before the first one reads anything.
    """
    async with small_server() as (worker, connect):
        worker.connection_limit = 1
        idle_client = await connect(UNREAD_BYTES)
        await worker.responses.get()
        while not worker.silent:
            await asyncio.sleep(0)
        # The response is partly unsent, so without an abort, closing the connection would wait for the client.
        assert await read_all(await connect(UNREAD_BYTES), UNREAD_BYTES) == UNREAD_BYTES
        return await read_all(idle_client, UNREAD_BYTES)


LARGE_BYTES = 200_000


def test_the_connection_of_a_client_that_does_not_read_is_closed_if_too_many_bytes_are_unsent():
    # The response of b is the smallest, but b has read nothing for 10 seconds, while a has read a part.
    sizes = {"a": LARGE_BYTES, "b": 3 * LARGE_BYTES // 4, "c": LARGE_BYTES}
    received_bytes = asyncio.run(bytes_of_three_responses(sizes, seconds=10))
    assert received_bytes["a"] == received_bytes["c"] == LARGE_BYTES
    assert received_bytes["b"] < LARGE_BYTES / 2


@pytest.mark.parametrize("largest", ["a", "b", "c"])
def test_the_largest_response_is_ended_if_too_many_bytes_are_unsent_and_no_client_has_stopped_reading(largest):
    sizes = dict.fromkeys("abc", LARGE_BYTES) | {largest: 2 * LARGE_BYTES}
    received_bytes = asyncio.run(bytes_of_three_responses(sizes, seconds=0))
    assert received_bytes.pop(largest) < LARGE_BYTES / 2
    assert [*received_bytes.values()] == [LARGE_BYTES, LARGE_BYTES]


async def bytes_of_three_responses(sizes: dict[str, int], seconds: float) -> dict[str, int]:
    """The number of bytes that each of the clients a, b and c gets of a response of the size in `sizes`.

    The server keeps at most the unsent bytes of two and a quarter large responses. First a and b get responses and do
    not read them. After `seconds`, a reads a quarter, and c gets a response. Then all read the rest.
    """
    async with small_server() as (worker, connect):
        worker.max_unsent_bytes = 9 * LARGE_BYTES // 4
        real_time, ahead = worker.loop.time, 0.0
        worker.loop.time = lambda: real_time() + ahead
        clients = {}
        for name in ("a", "b"):
            clients[name] = await connect(sizes[name])
            await worker.responses.get()
        ahead = seconds
        bytes_of_a = await read_all(clients["a"], LARGE_BYTES // 4)
        clients["c"] = await connect(sizes["c"])
        await worker.responses.get()
        received_bytes = {name: await read_all(clients[name], sizes[name]) for name in ("b", "c")}
        received_bytes["a"] = bytes_of_a + await read_all(clients["a"], sizes["a"] - bytes_of_a)
        return received_bytes


@asynccontextmanager
async def small_server() -> AsyncIterator[tuple[LimitedWorker, Callable[[int], Awaitable[socket.socket]]]]:
    """A worker with small buffers, and a function that sends it a request for a body of a number of bytes.

    `responses` of the worker gets an item for each response, in the iteration of the event loop that writes it.
    """
    config = Config()
    worker = LimitedWorker(1, 1, [], None, 30, config, Logger(config))
    worker.loop = loop = asyncio.get_running_loop()
    worker.responses = asyncio.Queue()

    async def respond_with_size(scope, receive, send):
        size = int(scope["path"].removeprefix("/"))
        length = str(size).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        worker.responses.put_nowait(size)
        await send({"type": "http.response.body", "body": b"@" * size})

    worker.asgi = respond_with_size
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    server = await loop.create_server(lambda: Connection(worker), sock=listener)
    clients = []

    async def connect(size: int) -> socket.socket:
        clients.append(socket.socket())
        clients[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        clients[-1].setblocking(False)
        await loop.sock_connect(clients[-1], listener.getsockname())
        await loop.sock_sendall(clients[-1], b"GET /%d HTTP/1.1\r\nHost: here\r\n\r\n" % size)
        return clients[-1]

    yield worker, connect
    for client in clients:
        client.close()
    server.close()


async def read_all(client: socket.socket, size: int) -> int:
    """Read a body of `size` bytes; return how many bytes have arrived until then or until the connection ended."""
    loop, received_bytes = asyncio.get_running_loop(), b""
    with suppress(ConnectionResetError):
        while received_bytes.count(b"@") < size and (part := await loop.sock_recv(client, 4096)):
            received_bytes += part
    return received_bytes.count(b"@")
