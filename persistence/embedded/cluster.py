"""One database cluster on disk: its location, creation, start and stop."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from persistence.embedded import account as accounts
from persistence.embedded import installations, postmaster
from persistence.embedded.account import Account
from persistence.embedded.errors import EmbeddedError
from persistence.embedded.installations import Installation

DATABASE = "loyalty"
# Where root keeps the data of a home that no other user can reach, such as one below /root.
_ELSEWHERE = Path("/var/lib/loyalty-server")
# A Unix socket's path has at most 103 bytes on macOS and 107 on Linux.
_MAX_SOCKET_PATH_LENGTH = 103
_START_SECONDS = 300  # recovery after a crash may have much to replay
_STOP_SECONDS = 120
_LOG_BYTES_KEPT = 8 * 1024 * 1024
_ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}

# For a small machine that the server shares with the API; everything else is PostgreSQL's default.
_SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "work_mem": "8MB",
    "maintenance_work_mem": "128MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    # A new database grows fast, and until its first ANALYZE the planner assumes that every table is small.
    "autovacuum_naptime": "10s",
    "random_page_cost": "1.1",
    "jit": "off",
    "idle_in_transaction_session_timeout": "60s",
    "log_checkpoints": "off",
    "log_timezone": "UTC",
    "timezone": "UTC",
}


@dataclass(frozen=True)
class Cluster:
    """The embedded database of one home; `base` holds the data, the locks, the socket and the logs."""

    base: Path
    account: Account | None

    @property
    def data(self) -> Path:
        """The data directory of PostgreSQL."""
        return self.base / "data"

    @property
    def log(self) -> Path:
        """The log file of the server itself."""
        return self.base / "server.log"

    @property
    def socket_directory(self) -> Path:
        """The directory of the server's socket: next to the data, or below /tmp if that path cannot be used.

        That is, if it is too long, or has other characters than letters, digits, `_`, `.`, `/` and `-`.
        """
        next_to_data = self.base / "socket"
        is_plain = re.fullmatch(r"[\w./-]+", str(next_to_data), re.ASCII)
        if is_plain and len(os.fsencode(next_to_data / ".s.PGSQL.5432")) <= _MAX_SOCKET_PATH_LENGTH:
            return next_to_data
        # The name depends on the inode. A home that is removed and created again has another inode, so its new server
        # gets another socket directory than the old server, which may still be stopping.
        name = f"{self.base}:{self.base.stat().st_ino}"
        return Path("/tmp") / f"loyalty-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"

    @property
    def url(self) -> str:
        """The connection URL, for libpq and for SQLAlchemy alike."""
        return f"postgresql://postgres@/{DATABASE}?host={quote(str(self.socket_directory), safe='')}"

    def major(self) -> int | None:
        """The major version of PostgreSQL that created the data; None if there is no data yet."""
        try:
            return int((self.data / "PG_VERSION").read_text())
        except FileNotFoundError:
            return None

    def run(self, program: Path, *arguments: str | Path, output: str, stdin: bytes | None = None) -> None:
        """Run a program of PostgreSQL, and write its output to the file `output` in `base`; raises EmbeddedError."""
        # To a file, since the server would keep a pipe open for ever. In a new session, since Ctrl-C in the terminal is
        # meant for the API. In `base`, since the account may not be allowed to enter the current directory.
        with open(self.base / output, "wb") as file:
            process = subprocess.run(
                [program, *arguments],
                cwd=self.base,
                env=_ENVIRONMENT,
                input=b"" if stdin is None else stdin,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **(self.account.process_options() if self.account else {}),
            )
        messages = (self.base / output).read_text(errors="replace").strip()
        if process.returncode != 0 or (stdin is not None and re.search("ERROR|FATAL|PANIC", messages)):
            raise EmbeddedError(f"{program.name} failed ({process.returncode}): {messages[-2000:]}")

    def give(self, path: Path) -> None:
        """Make the account the owner of a path."""
        if self.account:
            os.chown(path, self.account.uid, self.account.gid)


def find(home: Path) -> Cluster | None:
    """Return the cluster of a home; None if the home has no directory for it."""
    return find_or_create(home) if _directory_of(home).exists() else None


def _directory_of(home: Path) -> Path:
    """The directory of the cluster of a home; raises EmbeddedError for a path that pg_ctl cannot use."""
    directory = home.absolute() / "postgresql"
    forbidden = set('"$`\\\n') & set(str(directory))
    if forbidden:
        # pg_ctl puts the path into a shell's double quotes.
        raise EmbeddedError(f"LOYALTY_HOME must not contain {' '.join(sorted(forbidden))}")
    return directory


def find_or_create(home: Path) -> Cluster:
    """Return the cluster of a home; create a directory for it if there is none, but no database."""
    directory = _directory_of(home)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        directory = directory.resolve()
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise EmbeddedError(f"LOYALTY_HOME cannot be used: {error}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return _find_or_place(directory)
    finally:
        os.close(descriptor)


def _find_or_place(directory: Path) -> Cluster:
    """Return the cluster of a directory, whose data may be in another place.

    If the caller is root, PostgreSQL runs as another user, the `account`. For a user who cannot enter the directory,
    a place for new data is made elsewhere, and the file `location` in the directory gets its path. Raises EmbeddedError
    if the user cannot enter a directory that has data already, or the other place.
    """
    pointer = directory / "location"
    base = Path(pointer.read_text()) if pointer.exists() else directory
    account = accounts.account_of_cluster(base / "data")
    if account is None or account.can("-x", base):
        return Cluster(base, account)
    if base != directory or (base / "data").exists():
        raise EmbeddedError(
            f"The user {account.name} owns the data in {base}, but has no access to that directory: "
            "let this user enter it"
        )
    _ELSEWHERE.mkdir(parents=True, exist_ok=True, mode=0o755)
    # The prefix is only for people: the name of the directory that contains the home of the data.
    base = Path(tempfile.mkdtemp(prefix=f"{directory.parent.parent.name}-", dir=_ELSEWHERE))
    base.chmod(0o755)
    if not account.can("-x", base):
        fault = f"The user {account.name}, who runs PostgreSQL, has no access to {directory} or {base}"
        raise EmbeddedError(f"{fault}: set LOYALTY_HOME to a directory that this user can enter")
    pointer.write_text(str(base))
    return Cluster(base, account)


def start(cluster: Cluster, options: Mapping[str, str]) -> None:
    """Start the server, whatever state an earlier server left; the caller has the lock. Raises EmbeddedError."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        if postmaster.is_alive(cluster.data):
            if postmaster.is_ready(cluster.data):
                return
            # Alive and not ready: a process that was killed had begun to start or stop it. Wait for that.
        elif _start_now(cluster, options):
            return
        if time.monotonic() > deadline:
            raise EmbeddedError(f"PostgreSQL did not start in {_START_SECONDS} s; see {cluster.log}")
        time.sleep(0.1)


def stop(cluster: Cluster) -> None:
    """Stop the server and wait for its end; the caller has the lock and knows that no process uses the server."""
    if postmaster.is_alive(cluster.data):
        pg_ctl = _installation_for(cluster).path("pg_ctl")
        arguments = ("stop", "-D", cluster.data, "-m", "fast", "-w", "-t", str(_STOP_SECONDS))
        cluster.run(pg_ctl, *arguments, output="pg_ctl.log")


def _installation_for(cluster: Cluster) -> Installation:
    """The PostgreSQL of the version that created the cluster, or the best one for a new cluster.

    The user of the operating system that owns the cluster can run its programs.
    """
    return installations.runnable_by(installations.find(cluster.major()), cluster.account)


def _start_now(cluster: Cluster, options: Mapping[str, str]) -> bool:
    """Start a server that is down; return False if processes of the server before it still run."""
    installation = _installation_for(cluster)
    if cluster.major() is None:
        _initialize(cluster, installation, durable=options.get("fsync") != "off")
    _prepare_socket_directory(cluster)
    _prepare_log(cluster)
    postmaster.remove_traces(cluster.data, cluster.socket_directory)
    settings = {**_SETTINGS, "unix_socket_directories": str(cluster.socket_directory), **options}
    lines = (f"{name} = '{_quote(value)}'\n" for name, value in settings.items())
    (cluster.data / "loyalty.conf").write_text("".join(lines))
    cluster.give(cluster.data / "loyalty.conf")
    arguments = ("start", "-D", cluster.data, "-l", cluster.log, "-w", "-t", str(_START_SECONDS))
    log_size_before = cluster.log.stat().st_size
    try:
        cluster.run(installation.path("pg_ctl"), *arguments, output="pg_ctl.log")
    except EmbeddedError as error:
        with cluster.log.open("rb") as log:
            log.seek(log_size_before)
            messages = log.read().decode(errors="replace").strip()
        if "pre-existing shared memory block" in messages:
            return False
        raise EmbeddedError(f"{error}\n{messages[-2000:]}") from None
    return True


def _quote(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")


def _initialize(cluster: Cluster, installation: Installation, *, durable: bool) -> None:
    """Create the data directory with the database, completely or not at all."""
    # A killed initdb leaves such a directory. If only its parent was killed, initdb may still write into its directory,
    # so each gets another name.
    for leftover in cluster.base.glob("initdb-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix="initdb-", dir=cluster.base))
    cluster.give(scratch)
    # Names sort by code point and fold case by Unicode, the same on every machine.
    if installation.major >= 17:
        locale = ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    else:
        locale = ["--locale=C.UTF-8"]
    # The socket's directory is closed to all other users, so that trust is enough.
    arguments = ["--auth=trust", "--username=postgres", "--encoding=UTF8", *locale]
    if not durable:
        arguments.append("--no-sync")
    cluster.run(installation.path("initdb"), *arguments, "-D", scratch, output="initdb.log")
    with open(scratch / "postgresql.conf", "a") as file:
        file.write("\n# Rewritten by loyalty at every start:\ninclude_if_exists 'loyalty.conf'\n")
    cluster.run(
        installation.path("postgres"),
        *("--single", "-D", scratch, "postgres"),
        output="createdb.log",
        stdin=f"CREATE DATABASE {DATABASE}\n".encode(),
    )
    os.rename(scratch, cluster.data)
    descriptor = os.open(cluster.base, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _prepare_socket_directory(cluster: Cluster) -> None:
    """Create the directory of the socket, which only the server's account may enter."""
    directory = cluster.socket_directory
    owner = cluster.account.uid if cluster.account else os.geteuid()
    try:
        directory.mkdir(mode=0o700)
        cluster.give(directory)
    except FileExistsError:
        # In /tmp anybody could have created it to intercept our connections.
        status = directory.lstat()
        if status.st_uid not in (owner, os.geteuid()) or not directory.is_dir() or directory.is_symlink():
            raise EmbeddedError(f"{directory} was made by another user; remove it") from None
        cluster.give(directory)
        directory.chmod(0o700)


def _prepare_log(cluster: Cluster) -> None:
    """Create the log for the account; if it has become large, rename it first."""
    if cluster.log.exists() and cluster.log.stat().st_size > _LOG_BYTES_KEPT:
        cluster.log.rename(cluster.log.with_suffix(".log.1"))
    cluster.log.touch(mode=0o640)
    cluster.give(cluster.log)
