"""Runs Schemathesis several times, each in a fork of a process that has imported all modules once.

Takes the name of a JSON file: a list of runs with their `arguments` and the file for their `output`. Prints the exit
code of each.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import schemathesis.cli

# Modules that a run would import later, and the hooks.
_IMPORTED = (
    *("hypothesis.strategies._internal.random", "hypothesis.strategies._internal.regex", "pyrate_limiter"),
    *("schemathesis.generation.body_overrides", "schemathesis.generation.dictionaries", "schemathesis.transport.asgi"),
    *("schemathesis.engine.run.analysis", "schemathesis.engine.run.probes", "schemathesis.transport.wsgi"),
    *("schemathesis.specs.openapi.object_authorization", "tests.fuzz.hooks"),
    *("rich.console", "rich.progress", "schemathesis.cli.commands.run.executor", "schemathesis.engine.core"),
    *("schemathesis.engine.run.stateful._executor", "schemathesis.engine.run.unit", "schemathesis.reporting.ndjson"),
    *("schemathesis.specs.openapi.coverage", "schemathesis.specs.openapi.schemas"),
    *("schemathesis.specs.openapi.stateful", "schemathesis.transport.requests"),
)


def main() -> None:
    """Run all, one after the other."""
    for name in _IMPORTED:
        importlib.import_module(name)
    for run in json.loads(Path(sys.argv[1]).read_text()):
        child = os.fork()
        if not child:
            output = os.open(run["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(output, sys.stdout.fileno())
            os.dup2(output, sys.stderr.fileno())
            schemathesis.cli.schemathesis(run["arguments"])
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
