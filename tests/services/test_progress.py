"""The elapsed time and progress bars that long commands show on the standard error."""

import io
import threading
import time
from contextlib import contextmanager
from importlib import import_module

import pytest

from handlers.server.commands import context, import_file, progress
from handlers.settings import Settings


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def without_delay(monkeypatch):
    """Show progress at once instead of after two seconds."""
    monkeypatch.setattr(progress, "_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_REDRAW_SECONDS", 0.01)


def _wait_for(terminal, text):
    deadline = time.monotonic() + 10
    while text not in terminal.getvalue():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_time_of_long_work_is_shown_on_a_terminal_and_removed_at_its_end(monkeypatch, without_delay):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress.elapsed_time("Migrating"):
        _wait_for(terminal, "Migrating 00:00")
    last_line = terminal.getvalue().rpartition("Migrating 00:00")[2]
    assert last_line.strip() == ""


def test_the_time_of_long_work_is_not_shown_in_a_file(monkeypatch, without_delay):
    file = io.StringIO()
    monkeypatch.setattr("sys.stderr", file)
    with progress.elapsed_time("Migrating"):
        time.sleep(0.05)
    assert file.getvalue() == ""


def test_no_thread_shows_the_time_if_the_standard_error_is_a_file(monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with progress.elapsed_time("Migrating"):
        assert "elapsed-time" not in [thread.name for thread in threading.enumerate()]


def test_the_time_of_short_work_is_not_shown(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress.elapsed_time("Migrating"):
        time.sleep(0.05)
    assert "Migrating 0" not in terminal.getvalue()


def test_the_start_of_a_database_is_shown(monkeypatch, without_delay, tmp_path):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)

    @contextmanager
    def slow_server(home):
        _wait_for(terminal, "Starting the database 00:00")
        yield "postgresql://started"

    monkeypatch.setattr(context.embedded, "server", slow_server)
    with context.with_database(Settings.from_environment({"LOYALTY_HOME": str(tmp_path)})) as settings:
        assert settings.database_url == "postgresql://started"
        last_line = terminal.getvalue().rpartition("Starting the database 00:00")[2]
        assert last_line.strip() == ""


@pytest.mark.parametrize("output", [Terminal, io.StringIO])
def test_a_progress_bar_shows_the_completed_part_on_terminals_and_in_files(monkeypatch, without_delay, output):
    stderr = output()
    monkeypatch.setattr("sys.stderr", stderr)
    with progress.progress_bar("Verifying", 4, "check") as bar:
        bar.update(3)
    assert "3.00/4.00" in stderr.getvalue()


def test_a_bar_of_short_work_is_not_shown(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress.progress_bar("Verifying", 4, "check") as bar:
        bar.update(4)
    assert "4.00" not in terminal.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("is_long", [False, True])
def test_the_bar_of_an_import_is_shown_only_if_it_is_long(monkeypatch, is_long):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "_DELAY_SECONDS", 0.0 if is_long else 60.0)
    monkeypatch.setattr(import_file, "_PROGRESS_SECONDS", 0.0)

    # The import ends when it is read as done, whatever the importer returns.
    class EndlessImporter:
        def __init__(self, *_):
            pass

        def step(self):
            return True

    running_job = {"status": "running", "bytesTotal": 100, "bytesRead": 40, "rowsDone": 3, "rowsFailed": 1}
    jobs = iter([running_job, running_job, {**running_job, "status": "done", "bytesRead": 100}])

    class OneImport(import_file._Run):
        def __init__(self):
            self.engine, self.settings = None, import_file.load_settings()

        def _read(self):
            return next(jobs)

    monkeypatch.setattr("handlers.services.imports.work.Importer", EndlessImporter)
    assert OneImport().work()["status"] == "done"
    assert ("3 rows, 1 failed" in terminal.getvalue()) == is_long


@pytest.mark.parametrize(
    "module",
    ["clock", "config", "database", "export", "import_file", "organizations", "periodic_work", "replay", "sample"],
)
def test_commands_whose_work_grows_with_the_data_show_progress(module):
    commands = vars(import_module(f"handlers.server.commands.{module}"))
    assert commands.keys() & {"elapsed_time", "progress_bar"}
