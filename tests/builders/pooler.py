"""PgBouncer in transaction mode in front of a database, configured as in deploy/pgbouncer."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg2
from sqlalchemy import make_url

from persistence.embedded.account import account_of_cluster

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "pgbouncer" / "pgbouncer.ini"


def is_installed() -> bool:
    return shutil.which("pgbouncer") is not None


@contextmanager
def run_pooler(url: str, directory: Path, *, connections: int = 10) -> Iterator[str]:
    """Yield the URL of a pooler that shares at most `connections` connections to the database of `url`."""
    program = shutil.which("pgbouncer")
    assert program is not None
    folder = Path(tempfile.mkdtemp(dir=directory))
    folder.chmod(0o777)
    server = make_url(url)
    host, port = server.query.get("host") or server.host, server.port or server.query.get("port") or 5432
    values = {
        "listen_addr": "",
        "unix_socket_dir": folder,
        "auth_type": "any",
        "auth_file": folder / "users",
        "default_pool_size": connections,
        "max_client_conn": 400,
        "pidfile": folder / "pid",
    }
    lines = []
    for line in CONFIGURATION.read_text().splitlines():
        name = line.partition(" = ")[0]
        if name == server.database or name == "loyalty":
            line = f"* = host={host} port={port} user={server.username}"
        elif name in values:
            line = f"{name} = {values.pop(name)}"
        lines.append(line)
    lines += [f"{name} = {value}" for name, value in values.items()]
    (folder / "users").write_text("")
    (folder / "pgbouncer.ini").write_text("\n".join([*lines, ""]))
    # PgBouncer refuses to run as root. The account for a folder that does not exist yet is the default one.
    account = account_of_cluster(folder / "of-nobody-yet")
    account_options = {} if account is None else account.process_options()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([program, folder / "pgbouncer.ini"], stdout=log, stderr=log, **account_options)
    pooler_url = server.set(host=None, port=None, query={"host": str(folder), "port": "6432"})
    address = pooler_url.render_as_string(hide_password=False)
    try:
        _wait(address, process, folder / "log")
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()


def _wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg2.connect(address).close()
            return
        except psycopg2.OperationalError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
