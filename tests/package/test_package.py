"""The wheel and the source archive: their files, and the server that is installed from each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import urllib.request
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from tests.processes.loyalty import free_port, status

pytestmark = pytest.mark.package

ROOT = Path(__file__).parents[2]
PACKAGES = ("docs", "domain", "handlers", "openapi", "persistence")


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """The output of a command, which runs without the variables of the project's environment."""
    base_variables = {name: os.environ[name] for name in ("PATH", "HOME", "SSL_CERT_FILE") if name in os.environ}
    base_variables |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    result = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**base_variables, **variables},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


@pytest.fixture(scope="module")
def archives(temporary_directory: Path) -> Path:
    """A folder with both archives, built from a copy of the files that git does not ignore."""
    source, folder = temporary_directory / "source", temporary_directory / "dist"
    file_list = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, file_list.split("\0")):
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "build", "--outdir", folder, cwd=source)
    return folder


SUFFIXES = (".py", ".yaml", ".lark", ".mako", ".md", ".sql", ".css", ".js", ".html", ".svg", ".ts")


def server_files() -> set[str]:
    """The files that a server needs: those of its packages with one of these suffixes."""
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.suffix in SUFFIXES)
    return {path.relative_to(ROOT).as_posix() for path in paths if "__pycache__" not in path.parts}


def test_the_wheel_has_exactly_the_files_that_the_server_needs(archives: Path) -> None:
    [wheel] = archives.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == server_files()


def test_the_source_archive_has_the_project(archives: Path) -> None:
    [archive] = archives.glob("*.tar.gz")
    with tarfile.open(archive) as archive_file:
        names = {name.partition("/")[2] for name in archive_file.getnames()}
    assert server_files() <= names
    for name in ("deploy/Dockerfile", "tests/conftest.py", "bench/__init__.py", "constraints.txt", "CHANGELOG.md"):
        assert name in names


def test_the_clients_are_built_from_the_source_archive(archives: Path, temporary_directory: Path) -> None:
    folder, packages = temporary_directory / "clients", temporary_directory / "built"
    [archive] = archives.glob("*.tar.gz")
    with tarfile.open(archive) as archive_file:
        archive_file.extractall(temporary_directory / "unpacked", filter="data")
    [source] = (temporary_directory / "unpacked").iterdir()
    run(sys.executable, "-m", "openapi.clients", folder, packages, cwd=source)
    run(sys.executable, "-m", "build", "--wheel", "--outdir", packages, folder / "python", cwd=source)
    version = metadata.version("loyalty-server")
    assert {path.name for path in packages.iterdir()} == {
        f"loyalty-client-{version}.tgz",
        f"loyalty_client-{version}-py3-none-any.whl",
    }


@pytest.fixture(scope="module", params=["*.whl", "*.tar.gz"])
def programs(request, archives: Path, temporary_directory: Path) -> Path:
    """The `bin` of an environment with only the wheel, or the source archive, and its packages."""
    environment = temporary_directory / f"environment-{len(request.param)}"
    run(sys.executable, "-m", "venv", environment, cwd=temporary_directory)
    [file] = archives.glob(request.param)
    pip = [environment / "bin" / "pip", "install", "-q", "--disable-pip-version-check"]
    run(*pip, "--constraint", ROOT / "constraints.txt", file, cwd=temporary_directory)
    return environment / "bin"


def test_no_other_distribution_has_files_in_our_packages(programs: Path) -> None:
    # Print the names of the installed distributions that have a file in one of the packages.
    code = f"""
import importlib.metadata, json
names = {{
    distribution.metadata["Name"]
    for distribution in importlib.metadata.distributions()
    for file in distribution.files or ()
    if file.parts[0] in {PACKAGES!r}
}}
print(json.dumps(sorted(names)))
"""
    assert json.loads(run(programs / "python", "-P", "-c", code, cwd=programs)) == ["loyalty-server"]


@pytest.fixture(scope="module")
def folder_with_handlers(temporary_directory: Path) -> Path:
    """A folder with a package `handlers`, which ends a command that imports it instead of the installed one."""
    folder = temporary_directory / "folder-with-handlers"
    (folder / "handlers").mkdir(parents=True)
    (folder / "handlers" / "__init__.py").write_text("raise SystemExit('not this one')\n")
    return folder


def test_the_command_ignores_a_handlers_package_in_the_current_folder(
    programs: Path, folder_with_handlers: Path
) -> None:
    assert "serve" in run(programs / "loyalty", "--help", cwd=folder_with_handlers)
    document = json.loads(run(programs / "loyalty", "openapi", "integration", cwd=folder_with_handlers))
    assert "/events/track" in document["paths"]


def test_the_server_serves_its_pages_although_the_current_folder_has_a_handlers_package(
    programs: Path, temporary_directory: Path, folder_with_handlers: Path
) -> None:
    port = free_port()
    base_variables = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    variables = {
        **base_variables,
        "LOYALTY_HOME": str(temporary_directory / f"package-{port}"),
        "LOYALTY_PORT": str(port),
    }
    with (temporary_directory / f"package-{port}.log").open("w+") as log:
        server = subprocess.Popen(
            [programs / "loyalty", "serve"], cwd=folder_with_handlers, env=variables, stdout=log, stderr=log
        )
        try:
            deadline = time.monotonic() + 240
            while status(f"http://127.0.0.1:{port}/health/ready") != 200:
                assert server.poll() is None, Path(log.name).read_text()[-3000:]
                assert time.monotonic() < deadline
                time.sleep(0.2)
            for path in ("/docs", "/docs/installing", "/docs/decisions/0001-postgresql-only", "/v2/integration/docs"):
                assert status(f"http://127.0.0.1:{port}{path}") == 200
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/version", timeout=30) as response:
                assert json.load(response)["version"]
            report = json.loads(run(programs / "loyalty", "doctor", "--json", cwd=folder_with_handlers, **variables))
            assert report["isWell"]
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(120) == 0
