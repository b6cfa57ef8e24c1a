"""Signals that come while a program loads: it ends, whatever Python does with the exception of their handlers."""

from __future__ import annotations

import os
import signal

import pytest

from handlers.server.loading import loading
from tests.processes.loyalty import ROOT, free_port, loyalty

# Python swallows exceptions of signal handlers while it compiles a module; so does this one, for a given module. Where
# tests run in the background, processes inherit that Ctrl-C is ignored.
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


# Before the command itself is loaded nothing is to be tidied, so that a SIGTERM then ends the process by itself.
@pytest.mark.parametrize(
    ("command", "module", "name", "exit_code"),
    [
        ("worker", "handlers.server.commands.worker", "SIGTERM", -signal.SIGTERM),
        ("worker", "handlers.server.worker", "SIGTERM", 128 + signal.SIGTERM),
        ("worker", "handlers.server.worker", "SIGINT", 1),
        ("serve", "handlers.server.commands.serve", "SIGTERM", -signal.SIGTERM),
        ("serve", "handlers.server.gunicorn_server", "SIGTERM", 128 + signal.SIGTERM),
        ("serve", "handlers.http.app", "SIGTERM", 128 + signal.SIGTERM),
    ],
)
def test_a_signal_while_a_command_loads_ends_it(home, command, module, name, exit_code):
    (home.parent / "sitecustomize.py").write_text(_SWALLOWING_FINDER.format(module=module, signal=name))
    path = os.pathsep.join([str(home.parent), str(ROOT)])
    ended = loyalty(home, command, PYTHONPATH=path, LOYALTY_PORT=str(free_port()))
    assert ended.returncode == exit_code, ended.stderr
    assert "Traceback" not in ended.stderr


def test_handlers_run_once_all_is_loaded():
    calls = []
    before = signal.signal(signal.SIGTERM, lambda number, _: calls.append(number))
    try:
        with loading():
            signal.raise_signal(signal.SIGTERM)
            assert calls == []
        assert calls == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
