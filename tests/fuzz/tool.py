"""Runs Schemathesis several times in one process, so that modules, patterns and validators are loaded once.

Takes the name of a JSON file: a list of runs with their `arguments` and the file for their `output`. Prints the exit
code of each.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import schemathesis.cli


def main() -> None:
    """Run all, one after the other."""
    for run in json.loads(Path(sys.argv[1]).read_text()):
        with _output_to(run["output"]):
            exit_code = _run(run["arguments"])
        print(exit_code, flush=True)


def _run(arguments: Sequence[str]) -> int:
    try:
        schemathesis.cli.schemathesis(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


@contextmanager
def _output_to(path: str) -> Iterator[None]:
    """Write the output and the errors of this process to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    descriptors = {stream.fileno(): os.dup(stream.fileno()) for stream in (sys.stdout, sys.stderr)}
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for descriptor in descriptors:
        os.dup2(file, descriptor)
    os.close(file)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, copy in descriptors.items():
            os.dup2(copy, descriptor)
            os.close(copy)


if __name__ == "__main__":
    main()
