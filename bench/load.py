"""A load generator that costs less than the server: one process, one thread, kept connections, requests made before.

`closed_loop` has each client send its next request when it has the response; `at_rate` sends at fixed moments, whether
or not responses came, and counts a call from the moment it was due, so that a stall counts for all calls it delays.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import make_url

from persistence import embedded

# Returns the bytes of the next request.
MakeRequest = Callable[[], bytes]


@dataclass
class Load:
    """The outcome of a load: the milliseconds of each completed call, and the number of responses of each status."""

    seconds: float
    latencies: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)

    @property
    def calls(self) -> int:
        """Successful calls."""
        return sum(count for status, count in self.statuses.items() if status < 300)

    @property
    def rate(self) -> float:
        """Successful calls a second."""
        return self.calls / self.seconds

    @property
    def failures(self) -> int:
        """Calls whose response was no success."""
        return sum(count for status, count in self.statuses.items() if status >= 300)

    def percentile(self, share: int) -> float:
        """The milliseconds within which `share` percent of the calls had a response."""
        return statistics.quantiles(self.latencies, n=100)[share - 1] if len(self.latencies) > 1 else 0.0


def request(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    """The bytes of a request."""
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


class _Client(asyncio.Protocol):
    """One persistent connection; `on_response` is called with the client and the status of each response."""

    def __init__(self, on_response: Callable[[_Client, int], None]) -> None:
        self._on_response = on_response
        self._buffer = b""
        self.due_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, content: bytes, due_at: float) -> None:
        """Send a request that was due at a moment of `time.perf_counter`."""
        self.due_at = due_at
        self._transport.write(content)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, rest = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        lowered = head.lower()
        at = lowered.find(b"content-length:")
        length = int(lowered[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        self._on_response(self, int(head[9:12]))

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


async def _connect(port: int, clients: int, on_response: Callable[[_Client, int], None]) -> list[_Client]:
    loop = asyncio.get_running_loop()
    connections = [
        await loop.create_connection(lambda: _Client(on_response), "127.0.0.1", port) for _ in range(clients)
    ]
    return [client for _, client in connections]


def closed_loop(port: int, clients: int, seconds: float, make: MakeRequest) -> Load:
    """Load by clients that each wait for a response before the next request."""

    async def run() -> Load:
        load, pending = Load(seconds), clients
        end, all_clients_are_done = 0.0, asyncio.Event()

        def on_response(client: _Client, status: int) -> None:
            nonlocal pending
            now = time.perf_counter()
            load.latencies.append((now - client.due_at) * 1000)
            load.statuses[status] = load.statuses.get(status, 0) + 1
            if now < end:
                client.send(make(), now)
                return
            pending -= 1
            if not pending:
                all_clients_are_done.set()

        connected = await _connect(port, clients, on_response)
        begin = time.perf_counter()
        end = begin + seconds
        for client in connected:
            client.send(make(), time.perf_counter())
        await all_clients_are_done.wait()
        load.seconds = time.perf_counter() - begin
        for client in connected:
            client.close()
        return load

    return asyncio.run(run())


def at_rate(port: int, clients: int, seconds: float, make: MakeRequest, rate: float) -> Load:
    """Load at `rate` calls a second; a call that finds no idle client waits for one."""

    async def run() -> Load:
        load, idle = Load(seconds), deque[_Client]()
        due: deque[float] = deque()

        def on_response(client: _Client, status: int) -> None:
            load.latencies.append((time.perf_counter() - client.due_at) * 1000)
            load.statuses[status] = load.statuses.get(status, 0) + 1
            if due:
                client.send(make(), due.popleft())
            else:
                idle.append(client)

        idle.extend(await _connect(port, clients, on_response))
        begin = time.perf_counter()
        for number in range(int(rate * seconds)):
            moment = begin + number / rate
            if (wait := moment - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            elif number % 50 == 0:
                await asyncio.sleep(0)
            if idle:
                idle.popleft().send(make(), moment)
            else:
                due.append(moment)
        while len(idle) < clients:
            await asyncio.sleep(0.01)
        load.seconds = time.perf_counter() - begin
        for client in idle:
            client.close()
        return load

    return asyncio.run(run())


def by_pgbench(url: str, script: str, variables: Mapping[str, object], seconds: float, clients: int) -> Load:
    """Load by pgbench: the transactions of a script, by clients that each begin the next one when the last is over."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "script.sql"
        path.write_text(script)
        command = [str(embedded.program("pgbench")), "-n", "-M", "prepared", f"-c{clients}", f"-j{min(clients, 2)}"]
        command += [f"-T{max(1, round(seconds))}", f"-f{path}", "-l", f"--log-prefix={directory}/log"]
        command += [f"--define={name}={value}" for name, value in variables.items()]
        libpq = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        result = subprocess.run([*command, libpq], capture_output=True, text=True)
        if result.returncode:
            sys.exit(f"pgbench failed: {result.stderr[-2000:]}")
        # client, transaction, microseconds, ...
        lines = [line.split() for log in Path(directory).glob("log.*") for line in log.read_text().splitlines()]
    return Load(max(1, round(seconds)), [int(line[2]) / 1000 for line in lines], {200: len(lines)})
