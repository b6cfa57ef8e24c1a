"""Lint the documents with Spectral and Redocly, which are npm packages and need Node; `make lint` runs it.

tests/contract/lints.py has the project's own rules.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import openapi
from tests import npm

PACKAGES = ("@stoplight/spectral-cli@6.16.3", "@redocly/cli@2.77.0")

SPECTRAL = """\
extends: ["spectral:oas"]
"""
# The strict rules are the recommended ones, each an error. The paths are ambiguous by the rule that is off: where
# `members/by-loyalty-member-id/...` has a word, `members/{memberId}/events` has a parameter. Words take precedence.
REDOCLY = """\
extends: [recommended-strict]
rules:
  no-ambiguous-paths: off
"""


def faults(documents: Sequence[Path]) -> str:
    """The outputs of the linters that found something in the documents, which are in one folder; else empty."""
    folder = documents[0].parent
    (folder / "spectral.yaml").write_text(SPECTRAL)
    (folder / "redocly.yaml").write_text(REDOCLY)
    modules = npm.install_packages(*PACKAGES)
    spectral = (
        "@stoplight/spectral-cli/dist/index.js",
        "lint",
        "--ruleset",
        "spectral.yaml",
        "--fail-severity",
        "hint",
    )
    redocly = ("@redocly/cli/bin/cli.js", "lint", "--config", "redocly.yaml")
    running = [
        subprocess.Popen(
            [str(npm.node()), str(modules / script), *options, *(document.name for document in documents)],
            cwd=folder,
            env={**os.environ, "REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for script, *options in (spectral, redocly)
    ]
    outputs = [process.communicate()[0] for process in running]
    return "\n".join(text for text, process in zip(outputs, running, strict=True) if process.returncode)


def main() -> None:
    """Lint both documents; exits with their findings, or with 0."""
    if npm.node() is None:
        print("The documents are not linted by Spectral and Redocly: that needs Node.")
        return
    with tempfile.TemporaryDirectory() as folder:
        documents = [Path(folder) / f"{surface}.json" for surface in openapi.SURFACES]
        for surface, document in zip(openapi.SURFACES, documents, strict=True):
            document.write_text(json.dumps(openapi.bundle(surface)))
        sys.exit(faults(documents) or None)


if __name__ == "__main__":
    main()
