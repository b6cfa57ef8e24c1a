"""All files that contain the version of the project have the current one."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VERSION_PATTERNS = {
    "CHANGELOG.md": r"^## \[(\d\S*)\] - \d{4}-\d\d-\d\d$",
    "deploy/kubernetes/kustomization.yaml": r"^ *newTag: (\S+)$",
    "docs/operations.md": r"loyalty_server-(\S+?)-py3-none-any|loyalty-server:(\d\S+)",
}


def version() -> str:
    """The version that `setup.cfg` gives the package."""
    settings = ConfigParser()
    settings.read(ROOT / "setup.cfg")
    return settings["metadata"]["version"]


@pytest.mark.parametrize("name", VERSION_PATTERNS)
def test_files_name_the_version_of_the_package(name: str) -> None:
    matches = re.findall(VERSION_PATTERNS[name], (ROOT / name).read_text(encoding="utf-8"), re.M)
    versions = ["".join(groups) for groups in matches]
    # The changelog also has older versions; the newest one is the first.
    assert set(versions[:1] if name == "CHANGELOG.md" else versions) == {version()}


def test_the_changelog_begins_with_unreleased_changes_and_ends_with_version_1_0_0() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert headings[0] == "[Unreleased]"
    assert headings[-1].startswith("[1.0.0]")
