"""The list of equivalent mutants describes the current code."""

from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
ENTRIES = yaml.safe_load((ROOT / "tests/mutants/equivalent.yaml").read_text())


def text_of(path: Path) -> str:
    """The lines of a module as mutants show them: without indentation, joined by spaces."""
    return " ".join(line.strip() for line in path.read_text().splitlines())


def test_the_code_contains_the_lines_of_each_equivalent_mutant():
    for entry in ENTRIES:
        modules = [ROOT / entry["module"]] if "module" in entry else (ROOT / "domain").rglob("*.py")
        assert any(entry.get("before", "") in text_of(module) for module in modules), entry
