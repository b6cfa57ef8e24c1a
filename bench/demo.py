"""`make demo`: a server of its own, the real purchases of CDNOW's customers of 1997-1998, and the points they give.

The purchases are replayed twice, to show that nothing is counted twice; then the ledger is checked. The data stay in
`.loyalty/demo`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path

HOME = Path(".loyalty") / "demo"
_START_SECONDS = 120


def main() -> int:
    """Serve, replay and verify. Returns the exit code of the first step that failed, else 0."""
    purchases = purchases_file()
    # End the server together with this program.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    base_variables = {name: value for name, value in os.environ.items() if not name.startswith("LOYALTY_")}
    environment = {
        **base_variables,
        "LOYALTY_HOME": str(HOME),
        "LOYALTY_PORT": str(port),
        "LOYALTY_LOG_LEVEL": "warning",
        "LOYALTY_LOG_FORMAT": "text",
    }
    command = [sys.executable, "-m", "handlers"]
    # A session of its own, so that Ctrl-C first ends the replay; this program then ends the server.
    server = subprocess.Popen([*command, "serve"], env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_until_ready(server, f"http://127.0.0.1:{port}/health/ready")
        for title, arguments in (
            ("The purchases become points", ["replay", str(purchases)]),
            ("The same purchases again", ["replay", str(purchases)]),
            ("The ledger is checked", ["verify"]),
        ):
            print(f"\n{title}: loyalty {arguments[0]} ...", flush=True)
            result = subprocess.run([*command, *arguments], env=environment)
            if result.returncode:
                return result.returncode
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        server.terminate()
        server.wait()
    return 0


def purchases_file() -> Path:
    """The file of purchases in the package Lifetimes, which is located but never imported."""
    package = find_spec("lifetimes")
    if package is None or package.origin is None:
        sys.exit("the package Lifetimes is missing; `make demo` installs it")
    return Path(package.origin).parent / "datasets" / "CDNOW_master.txt"


def wait_until_ready(server: subprocess.Popen[bytes], url: str) -> None:
    """Wait until the server reports that it is ready; exit if it ended instead."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            sys.exit(f"the server ended with exit code {server.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    sys.exit("the server did not get ready")


if __name__ == "__main__":
    sys.exit(main())
