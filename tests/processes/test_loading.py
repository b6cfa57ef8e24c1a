"""A signal during the import of modules ends a command, even if Python swallows the exception of its handler."""

from __future__ import annotations

import os
import signal

import pytest

from handlers.server.loading import loading
from tests.processes.loyalty import ROOT, free_port, loyalty

# Python swallows exceptions of signal handlers while it compiles a module. This finder sends a signal at the import of
# a given module, and swallows the exception. The handler of SIGINT is set because
# tests in the background inherit that Ctrl-C is ignored.
_SWALLOWING_FINDER = """
import contextlib, os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            with contextlib.suppress(BaseException):
                os.kill(os.getpid(), signal.{signal})

sys.meta_path.insert(0, Finder())
"""


# The handlers are installed when the command itself is loaded; before, SIGTERM ends the process directly.
@pytest.mark.parametrize(
    ("command", "module", "signal_name", "exit_code"),
    [
        ("worker", "handlers.server.commands.worker", "SIGTERM", -signal.SIGTERM),
        ("worker", "handlers.server.worker", "SIGTERM", 128 + signal.SIGTERM),
        ("worker", "handlers.server.worker", "SIGINT", 1),
        ("serve", "handlers.server.commands.serve", "SIGTERM", -signal.SIGTERM),
        ("serve", "handlers.server.gunicorn_server", "SIGTERM", 128 + signal.SIGTERM),
        ("serve", "handlers.http.app", "SIGTERM", 128 + signal.SIGTERM),
    ],
)
def test_a_signal_ends_a_command_that_is_loading(shared_home, tmp_path, command, module, signal_name, exit_code):
    (tmp_path / "sitecustomize.py").write_text(_SWALLOWING_FINDER.format(module=module, signal=signal_name))
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    result = loyalty(shared_home, command, PYTHONPATH=path, LOYALTY_PORT=str(free_port()))
    assert result.returncode == exit_code, result.stderr
    assert "Traceback" not in result.stderr


def test_signal_handlers_run_after_the_loading():
    handled_signals = []
    handler_before = signal.signal(signal.SIGTERM, lambda number, _: handled_signals.append(number))
    try:
        with loading():
            signal.raise_signal(signal.SIGTERM)
            assert handled_signals == []
        assert handled_signals == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, handler_before)
