"""Checks whether the server of a data directory is alive; a mere process id may name a zombie or another program."""

import subprocess
from pathlib import Path

_PROC = Path("/proc")
_STATUS_LINE = 7  # the eighth line of postmaster.pid: starting, ready, stopping


def is_alive(data: Path) -> bool:
    """True if the process named by `postmaster.pid` runs PostgreSQL on exactly this directory."""
    lines = _lines(data)
    if not lines or not lines[0].strip().isdigit():
        return False
    return is_server_of(data, int(lines[0]))


def is_ready(data: Path) -> bool:
    """True if the server reports that it accepts connections."""
    lines = _lines(data)
    return len(lines) > _STATUS_LINE and lines[_STATUS_LINE].strip() == "ready"


def is_server_of(data: Path, pid: int) -> bool:
    """True if the process is a living PostgreSQL server that was started with `-D <data>`."""
    state, arguments = _from_proc(pid) if (_PROC / "self" / "stat").exists() else _from_ps(pid)
    # A zombie has already ended; its parent has not read its exit status yet.
    return bool(arguments) and not state.startswith(("Z", "X")) and f"postgres\0-D\0{data}\0" in arguments


def remove_traces(data: Path, socket_directory: Path) -> None:
    """Remove files of a killed server that would make it appear alive.

    A backend of the old server that still works is safe from this: PostgreSQL recognizes it by its shared memory.
    """
    (data / "postmaster.pid").unlink(missing_ok=True)
    for path in socket_directory.glob(".s.PGSQL.*"):
        path.unlink(missing_ok=True)


def _lines(data: Path) -> list[str]:
    """The lines of `postmaster.pid`; none without this file."""
    try:
        return (data / "postmaster.pid").read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _from_proc(pid: int) -> tuple[str, str]:
    """The state of a process, and its arguments, each followed by a zero byte; both are empty if it does not exist."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text(errors="replace")
        arguments = (_PROC / str(pid) / "cmdline").read_text(errors="surrogateescape")
    except OSError:
        return "", ""
    # The name in parentheses may contain spaces and parentheses, too; the state follows the last parenthesis.
    return stat.rpartition(")")[2].strip(), arguments


def _from_ps(pid: int) -> tuple[str, str]:
    """The result of `_from_proc` for systems without /proc, such as macOS."""
    process = subprocess.run(
        ["ps", "-ww", "-o", "stat=", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, cwd="/"
    )
    state, _, arguments = process.stdout.strip().partition(" ")
    # ps separates arguments by spaces, and paths may contain spaces: restore only the zero bytes for `is_server_of`.
    return state, arguments.strip().replace("postgres -D ", "postgres\0-D\0") + "\0"
