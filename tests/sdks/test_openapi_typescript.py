"""The types of openapi-typescript: openapi-fetch makes the calls of the journey, with decimals as floats."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import npm
from tests.sdks.running import FIFTEEN_DIGITS, JOURNEYS, SURFACES, Running, expected_results, run

PACKAGES = ("openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3")
STRICT = ("--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--noUnusedLocals")
TARGET = ("--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom", "--outDir", "out")


@pytest.mark.sdks
def test_the_client_makes_the_journey(running_server: Running, tmp_path: Path) -> None:
    node = npm.node()
    if node is None:
        pytest.skip("needs Node")
    modules = npm.install_packages(*PACKAGES)
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "package.json").write_text('{"type": "module"}\n')
    for surface in SURFACES:
        make = [node, modules / "openapi-typescript/bin/cli.js", running_server.document(surface)]
        run([*make, "--output", f"{surface}.d.ts"], cwd=tmp_path)
    shutil.copy(JOURNEYS / "openapi_fetch.ts", tmp_path / "journey.ts")
    run([node, modules / "typescript/bin/tsc", *STRICT, *TARGET, "journey.ts"], cwd=tmp_path)
    results = running_server.journey([node, "out/journey.js"], cwd=tmp_path, decimal=FIFTEEN_DIGITS)
    assert results == expected_results(decimal=FIFTEEN_DIGITS)
