"""The fixtures of all tests: one PostgreSQL for the whole run, whose schema the migrations create.

Tests do not remove their records: each creates its own organization and sees no other records. If several processes
run the tests (`pytest -n 2`), each process has its own PostgreSQL.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from sqlalchemy import Connection, Engine, func, select

import openapi
from handlers.settings import Settings
from persistence import distribution, embedded, schema
from persistence.engine import create_engine
from persistence.tables import metadata
from tests.builders import one_organization
from tests.builders.pooler import run_pooler
from tests.processes.fleet import disposed, kill_database, wait_until

if TYPE_CHECKING:
    from tests.builders.api import Api

# No example fails because a machine is slow. A change is tried with the same examples again and again; the long runs
# look for new ones, and for more of them.
hypothesis.settings.register_profile("repeated", deadline=None, derandomize=True)
hypothesis.settings.register_profile("searching", deadline=None, max_examples=500)
hypothesis.settings.load_profile("repeated")

# As in the server: by default the garbage collector would scan the objects of all tests very often.
gc.set_threshold(10_000)

_PREFIX = f"loyalty-tests-{os.getuid()}-"
SLOW_MS = 180_000
_RESIDENT_PAGES = Path("/proc/self/statm")
_MUCH_SPACE = 10_000_000_000
_MUCH_MEMORY = 700_000_000
# Returning memory takes a second or two, so not after each file.
_GROWTH = 100_000_000
# The data need not survive a power cut; autovacuum runs at PostgreSQL's default interval.
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum_naptime": "1min"}


# `tox -e citus` lets the tests use a cluster.
_GIVEN_DATABASE = os.environ.get("LOYALTY_TEST_DATABASE_URL")
# On the nodes of a cluster, sequences begin at multiples of this.
_FIRST_ID_OF_A_NODE = 1 << 48

# The files of these folders take longest, so they run first.
_SLOWEST_FOLDERS = ("fuzz", "processes", "purchases", "machines", "concurrency", "services", "contract")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """The number of processes for `-n auto`: one for each core, and another one for all tests.

    The tests of servers, workers and killed processes wait for a seventh of their time, which another process can use.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    runs_all_tests = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.ignore
    return cores + runs_all_tests


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, so that no process is left with one of them at the end."""

    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        return _SLOWEST_FOLDERS.index(folder) if folder in _SLOWEST_FOLDERS else len(_SLOWEST_FOLDERS)

    items.sort(key=place)
    if _GIVEN_DATABASE:
        skip_marker = pytest.mark.skip(reason="goes past triggers, or looks at plans or locks, of one node")
        for item in items:
            if item.get_closest_marker("undistributed"):
                item.add_marker(skip_marker)


def pytest_sessionfinish() -> None:
    """Leave no objects to the five collections that pytest does at its end, which would take seconds."""
    gc.freeze()


@pytest.fixture(scope="session")
def temporary_directory() -> Iterator[Path]:
    """A directory for the run, which the user of PostgreSQL can reach if root runs the tests."""
    parent = _parent_directory()
    # One run at a time: a new directory without its lock looks like the directory of a killed run.
    with (parent / f"{_PREFIX}lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        _remove_directories_of_killed_runs(parent)
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        directory.chmod(0o711)
        lock_descriptor = os.open(directory, os.O_RDONLY)
        fcntl.flock(lock_descriptor, fcntl.LOCK_EX)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
    os.close(lock_descriptor)


@pytest.fixture(scope="session")
def database_url(temporary_directory: Path) -> Iterator[str]:
    """The URL of a database that has only the schema when the run begins."""
    if _GIVEN_DATABASE:
        with disposed(create_engine(_GIVEN_DATABASE, threads=1)) as engine:
            schema.migrate(engine)
            distribution.distribute(engine, shards=8)
            yield _GIVEN_DATABASE
            # Nothing is ordered by the ids of these tables.
            assert _tables_with_ids_of_nodes(engine) <= {"past_member_tiers", "report_changes"}
        return
    home = temporary_directory / "home"
    with embedded.server(home, options=FAST) as url:
        with disposed(create_engine(url, threads=1)) as engine:
            schema.migrate(engine)
        # `tox -e pgbouncer` lets the tests use a pooler.
        with (
            run_pooler(url, temporary_directory)
            if "LOYALTY_TEST_POOLED" in os.environ
            else nullcontext(url) as test_url
        ):
            yield test_url
        # The database is removed anyway, so kill it before it writes its memory to the disk.
        kill_database(home, signal.SIGQUIT)
        wait_until(lambda: not embedded.describe(home).is_running)


@pytest.fixture(scope="session", autouse=True)
def each_statement_is_about_one_organization() -> Iterator[None]:
    """A statement about several organizations would use all nodes of a distributed database."""
    with one_organization.watched() as statements:
        yield
    assert not statements, "\n\n".join(statements)


@pytest.fixture(scope="module", autouse=True)
def the_collector_sees_all_objects() -> Iterator[None]:
    """Undo `gc.freeze` of commands, after which the collector would skip the objects of all tests."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


@pytest.fixture(scope="session", autouse=True)
def documents_are_not_changed() -> Iterator[None]:
    """All callers of `openapi.bundle` share its documents, so a test that changes one affects later tests."""
    yield
    if openapi.bundle.cache_info().currsize:
        documents = {surface: openapi.bundle(surface) for surface in openapi.SURFACES}
        for cached_function in (openapi.bundle, openapi.load, openapi.declared_components):
            cached_function.cache_clear()
        assert documents == {surface: openapi.bundle(surface) for surface in openapi.SURFACES}


@pytest.fixture(scope="session")
def memory_after_trim() -> dict[str, int]:
    """The resident bytes of the process after free memory was returned the last time."""
    return {"bytes": 0}


@pytest.fixture(scope="module", autouse=True)
def free_memory_is_returned(memory_after_trim: dict[str, int]) -> Iterator[None]:
    """Return free memory to the system after a file if the process has much, so that it stays below a gigabyte.

    It would keep the memory of the largest bodies and applications of all files that it has run.
    """
    yield
    if _resident_bytes() > max(_MUCH_MEMORY, memory_after_trim["bytes"] + _GROWTH):
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        memory_after_trim["bytes"] = _resident_bytes()


def _resident_bytes() -> int:
    """The memory of this process; 0 where the system does not tell it as Linux does."""
    return int(_RESIDENT_PAGES.read_text().split()[1]) * resource.getpagesize() if _RESIDENT_PAGES.exists() else 0


@pytest.fixture(scope="session")
def settings(database_url: str, temporary_directory: Path) -> Settings:
    """Settings of a server that validates its responses against the documents."""
    return Settings(
        database_url=database_url,
        home=temporary_directory / "home",
        validate_responses=True,
        # A slow machine with many concurrent calls must not cause failures.
        request_timeout_ms=SLOW_MS,
        statement_timeout_ms=SLOW_MS,
        lock_timeout_ms=SLOW_MS,
        evaluation_ms=SLOW_MS,
        call_evaluation_ms=SLOW_MS,
    )


@pytest.fixture(scope="session")
def engine(settings: Settings) -> Iterator[Engine]:
    """The engine of the run; committed changes stay until the end of the run."""
    engine = create_engine(settings.database_url, threads=settings.threads, application_name="loyalty-tests")
    yield engine
    engine.dispose()


@pytest.fixture(scope="session")
def api(settings: Settings) -> Iterator[Api]:
    """The application on the test database."""
    # Imported only here: tests of rules need no application, whose import takes a second in each process.
    from tests.builders.api import running_api

    with running_api(settings) as api:
        yield api


@pytest.fixture(scope="session")
def api_without_validation(settings: Settings) -> Iterator[Api]:
    """The application without the validation of responses, for tests with many of them: other tests validate them."""
    from tests.builders.api import running_api

    with running_api(replace(settings, validate_responses=False)) as api:
        yield api


@pytest.fixture
def db(engine: Engine) -> Iterator[Connection]:
    """A connection whose changes are rolled back at the end of the test."""
    with engine.connect() as connection, connection.begin() as transaction:
        yield connection
        transaction.rollback()


def _tables_with_ids_of_nodes(engine: Engine) -> set[str]:
    """The tables with an id that did not come from the coordinator, so that a later one may be less."""
    ids = {table: column for table in metadata.sorted_tables for column in table.columns if column.identity is not None}
    with engine.connect() as db:
        greatest_ids = {table.name: db.execute(select(func.max(column))).scalar_one() for table, column in ids.items()}
    return {name for name, number in greatest_ids.items() if (number or 0) >= _FIRST_ID_OF_A_NODE}


def _parent_directory() -> Path:
    """The directory for the databases of runs: in memory where it has much space for files, else the temporary one.

    A copied home has 1,800 files. To create and remove them takes ext4 a third of the time of the tests of processes.
    """
    memory = Path("/dev/shm")
    if (
        memory.is_dir()
        and os.access(memory, os.W_OK)
        and shutil.disk_usage(memory).free > _MUCH_SPACE
        and not os.statvfs(memory).f_flag & os.ST_NOEXEC
    ):
        return memory
    return Path(tempfile.gettempdir())


def _remove_directories_of_killed_runs(parent: Path) -> None:
    """End the servers and remove the directories of test runs that were killed before they could do it."""
    for directory in parent.glob(f"{_PREFIX}*"):
        if not directory.is_dir():
            continue
        lock_descriptor = os.open(directory, os.O_RDONLY)
        try:
            fcntl.flock(lock_descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            if embedded.describe(directory / "home"):
                with embedded.server(directory / "home"):
                    pass
            shutil.rmtree(directory, ignore_errors=True)
        finally:
            os.close(lock_descriptor)
