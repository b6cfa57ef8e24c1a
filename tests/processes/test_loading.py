"""Signals that come while a program loads: it ends, whatever Python does with the exception of their handlers."""

from __future__ import annotations

import os
import signal

import pytest

from handlers.server.loading import loading
from tests.processes.loyalty import ROOT, free_port, loyalty

# Python swallows exceptions of signal handlers while it compiles a module; so does this one, for a given module.
_SWALLOWING_FINDER = """
import contextlib, os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            with contextlib.suppress(BaseException):
                os.kill(os.getpid(), signal.{signal})

sys.meta_path.insert(0, Finder())
"""


# Before the command itself is loaded nothing is to be tidied, so that a SIGTERM then ends the process by itself.
@pytest.mark.parametrize(
    ("command", "module", "after_sigterm"),
    [
        ("worker", "handlers.server.commands.worker", -signal.SIGTERM),
        ("worker", "handlers.server.worker", 128 + signal.SIGTERM),
        ("serve", "handlers.server.commands.serve", -signal.SIGTERM),
        ("serve", "handlers.server.gunicorn_server", 128 + signal.SIGTERM),
        ("serve", "handlers.http.app", 128 + signal.SIGTERM),
    ],
)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_while_a_command_loads_ends_it(home, command, module, name, after_sigterm):
    (home.parent / "sitecustomize.py").write_text(_SWALLOWING_FINDER.format(module=module, signal=name))
    path = os.pathsep.join([str(home.parent), str(ROOT)])
    ended = loyalty(home, command, PYTHONPATH=path, LOYALTY_PORT=str(free_port()))
    assert ended.returncode == (after_sigterm if name == "SIGTERM" else 1), ended.stderr
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
