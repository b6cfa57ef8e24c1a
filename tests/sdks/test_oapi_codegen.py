"""The Go clients of oapi-codegen: they make the calls of the journey, and keep all 20 digits of a decimal."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.sdks.running import JOURNEYS, SURFACES, TWENTY_DIGITS, Running, expected_results, go_variables, run

GENERATOR = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
MODULE = """\
module journey

go 1.24

require (
	github.com/oapi-codegen/nullable v1.1.0
	github.com/oapi-codegen/runtime v1.8.0
)
"""
CONFIGURATION = """\
package: {surface}
output: {surface}/client.go
generate: {{models: true, client: true}}
output-options: {{skip-prune: true, nullable-type: true}}
"""


@pytest.mark.sdks
def test_the_clients_make_the_journey(running_server: Running, tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs Go")
    for surface in SURFACES:
        (tmp_path / surface).mkdir()
        (tmp_path / f"{surface}.yaml").write_text(CONFIGURATION.format(surface=surface))
        generate = [go, "run", GENERATOR, "-config", f"{surface}.yaml", running_server.document(surface)]
        run(generate, cwd=tmp_path, **go_variables())
    (tmp_path / "go.mod").write_text(MODULE)
    shutil.copy(JOURNEYS / "oapi_codegen.go", tmp_path / "main.go")
    run([go, "mod", "tidy"], cwd=tmp_path, **go_variables())
    run([go, "vet", "./..."], cwd=tmp_path, **go_variables())
    run([go, "build", "-o", "journey", "."], cwd=tmp_path, **go_variables())
    results = running_server.journey([tmp_path / "journey"], cwd=tmp_path, decimal=TWENTY_DIGITS)
    assert results == expected_results(decimal=TWENTY_DIGITS)
