"""An embedded PostgreSQL of the product's own, created, started and stopped automatically.

All processes of a machine that use the same home share one server. The first process starts it, and the last process to
close its lease stops it. Each process has a shared lock on the file `users`, which the kernel releases even if the
process is killed. The server is started and stopped under a lock on the file `lock`.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from persistence.embedded import cluster as clusters
from persistence.embedded import installations, postmaster
from persistence.embedded.cluster import Cluster
from persistence.embedded.errors import EmbeddedError

__all__ = ["Description", "EmbeddedError", "Lease", "acquire", "describe", "program", "reviver", "server"]


class Lease:
    """The right to use the server, until `close`.

    A forked process inherits the lock, so that the server also runs until the last child has ended. In a child, `close`
    does nothing, so that a forked worker may end by the same code as its parent.
    """

    def __init__(self, cluster: Cluster, descriptor: int) -> None:
        self.url = cluster.url
        self._cluster = cluster
        self._descriptor = descriptor
        self._owner = os.getpid()

    def close(self) -> None:
        """Give the lease up; if no other process uses the server, stop it. May be called twice."""
        if os.getpid() != self._owner or self._descriptor < 0:
            return
        with _hold_lock(self._cluster):
            # Closed instead of unlocked, since forked children share the lock and may still need it.
            os.close(self._descriptor)
            self._descriptor = -1
            users = _open(self._cluster.base / "users")
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # Another process uses the server.
                return
            else:
                clusters.stop(self._cluster)
            finally:
                os.close(users)


def acquire(home: Path, *, options: Mapping[str, str] | None = None) -> Lease:
    """Use the server of `home`, starting it if it is down; raises EmbeddedError.

    `options` are settings of PostgreSQL, applied only by the process that starts it.
    """
    cluster = clusters.find_or_create(home)
    with _hold_lock(cluster):
        users = _open(cluster.base / "users")
        try:
            fcntl.flock(users, fcntl.LOCK_SH)
            clusters.start(cluster, options or {})
        except BaseException:
            os.close(users)
            raise
    return Lease(cluster, users)


def reviver(home: Path) -> Callable[[], bool]:
    """A function that restarts the server of a home if it has died, and returns True if so; it raises EmbeddedError.

    The function may be called often: on a system with /proc, it only reads files while the server runs, and starts no
    process.
    """
    cluster = clusters.find_or_create(home)

    def revive() -> bool:
        if postmaster.is_alive(cluster.data):
            return False
        with _hold_lock(cluster):
            clusters.start(cluster, {})
        return True

    return revive


@contextmanager
def server(home: Path, *, options: Mapping[str, str] | None = None) -> Iterator[str]:
    """Use the server of `home` in a context, which yields the URL of the database."""
    lease = acquire(home, options=options)
    try:
        yield lease.url
    finally:
        lease.close()


def program(name: str) -> Path:
    """The path of a program of PostgreSQL, such as psql or pgbench, of the version that a new database gets."""
    return installations.find().path(name)


@dataclass(frozen=True)
class Description:
    """A description of a home, for people."""

    data: Path
    major: int | None
    is_running: bool


def describe(home: Path) -> Description | None:
    """Describe a home without changing it; return None if it has no database yet."""
    cluster = clusters.find(home)
    if cluster is None or cluster.major() is None:
        return None
    return Description(cluster.data, cluster.major(), postmaster.is_alive(cluster.data))


@contextmanager
def _hold_lock(cluster: Cluster) -> Iterator[None]:
    """Hold the lock under which the server is started and stopped."""
    descriptor = _open(cluster.base / "lock")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open a file to lock it, creating it if needed; return the descriptor."""
    # flock needs no right to write, so that any user who may read can take part.
    return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
