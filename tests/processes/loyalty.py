"""The command `loyalty`, run in its own process or in the process of the test."""

from __future__ import annotations

import os
import random
import re
import resource
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from functools import partial
from pathlib import Path

from click.testing import CliRunner

from handlers.server.cli import main
from persistence import embedded

ROOT = Path(__file__).parents[2]
BELOW_EPHEMERAL_PORTS = (20_000, 32_000)


def environment(home: Path, **variables: str) -> dict[str, str]:
    """The environment of a command that uses the embedded database of a home, without the settings of this process."""
    base_variables = {name: value for name, value in os.environ.items() if not name.startswith(("LOYALTY_", "PG"))}
    return {**base_variables, "PYTHONPATH": str(ROOT), "LOYALTY_HOME": str(home), **variables}


def loyalty(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in its own process, and wait until it ends."""
    return subprocess.run(
        [sys.executable, "-m", "handlers", *arguments],
        env=environment(home, **variables),
        cwd=home.parent,
        capture_output=True,
        text=True,
        timeout=240,
    )


def invoke(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the process of the test, which saves the start of another process.

    Use this to test what a command prints and changes; use `loyalty` to test its start, signals and logs. An
    exception that would be a traceback there is raised here.
    """
    unset_variables = dict.fromkeys(name for name in os.environ if name.startswith(("LOYALTY_", "PG")))
    handler = signal.getsignal(signal.SIGTERM)
    try:
        result = CliRunner().invoke(
            main,
            arguments,
            prog_name="loyalty",
            env={**unset_variables, "LOYALTY_HOME": str(home), **variables},
            catch_exceptions=False,
        )
    finally:
        signal.signal(signal.SIGTERM, handler)
    return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, result.stderr)


class Server:
    """A running `loyalty serve` on a free port, with logs as text unless `variables` set another format.

    `descriptors` is the limit of `ulimit -n`.
    """

    def __init__(self, home: Path, *arguments: str, descriptors: int | None = None, **variables: str) -> None:
        self.home = home
        self.port = free_port()
        self.log = home.parent / f"serve-{self.port}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "handlers", "serve", "--port", str(self.port), *arguments],
                env=environment(home, **{"LOYALTY_LOG_FORMAT": "text", **variables}),
                cwd=home.parent,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                preexec_fn=None if descriptors is None else partial(_limit_descriptors, descriptors),
            )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def greeting(self) -> str:
        """The lines that the server prints until it is ready; raises AssertionError if it ends before."""
        lines = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            lines.append(line)
            if "Ctrl-C" in line:
                return "".join(lines)
        raise AssertionError(self.log.read_text()[-3000:])

    def wait_until_ready(self) -> None:
        """Wait until the server responds that it is ready; raises AssertionError if it ends before."""
        deadline = time.monotonic() + 240
        while status(f"{self.url}/health/ready") != 200:
            is_late = self.process.poll() is not None or time.monotonic() > deadline
            assert not is_late, self.log.read_text()[-3000:]
            time.sleep(0.1)

    def stop(self, by: int = signal.SIGTERM) -> int:
        """Send a signal to the parent process of the server and wait; returns the exit code."""
        self.process.send_signal(by)
        return self.process.wait(120)

    def workers(self) -> set[int]:
        """The process ids of the workers that the log reports as started so far."""
        return {int(pid) for pid in re.findall(r"Booting worker with pid: (\d+)", self.log.read_text())}


def copy_home(home: Path, target: Path) -> None:
    """Copy a home whose database is not running; the copy keeps the owner of the files."""
    subprocess.run(["cp", "-a", home, target], check=True)


def curl_line(greeting: str) -> tuple[str, dict[str, str]]:
    """The URL and the headers of the printed curl command, with the token of the export command before it."""
    [token] = re.findall(r"^ *export TOKEN=(\S+)$", greeting, re.MULTILINE)
    [line] = re.findall(r"^ *(curl .*)$", greeting, re.MULTILINE)
    words = shlex.split(line.replace("$TOKEN", token))
    assert words[:2] == ["curl", "-H"]
    name, _, value = words[2].partition(": ")
    return words[3], {name: value}


def _limit_descriptors(limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def free_port() -> int:
    """A free port below the ephemeral ones, so that it stays free while its server is killed and started again."""
    while True:
        port = random.SystemRandom().randrange(*BELOW_EPHEMERAL_PORTS)
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


def status(url: str, **headers: str) -> int:
    """The status of the response to a GET; 0 if there is none."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def wait_until_stopped(home: Path) -> None:
    """Wait until the embedded server of a home has ended."""
    deadline = time.monotonic() + 120
    while embedded.describe(home).is_running:
        assert time.monotonic() < deadline
        time.sleep(0.05)
