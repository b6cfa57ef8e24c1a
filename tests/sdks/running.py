"""A running server for clients, and helpers that run a journey: the same calls by the client of each generator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.builders.api import Api
from tests.npm import cache_folder

JOURNEYS = Path(__file__).parent / "journeys"
SURFACES = ("integration", "administration")

# An amount that clients with exact decimals can send and receive, and one for clients with floats.
TWENTY_DIGITS = "12345678901234.567891"
FIFTEEN_DIGITS = "123456789.123456"


def download_folder(name: str) -> Path:
    """A folder of the cache for downloads of a toolchain."""
    folder = cache_folder() / name
    folder.mkdir(exist_ok=True)
    return folder


def go_variables() -> dict[str, str]:
    """The environment of Go whose packages stay in the cache."""
    return {"GOPATH": str(download_folder("go")), "GOCACHE": str(download_folder("go-build")), "GOFLAGS": "-modcacherw"}


def run(command: Sequence[str | Path], *, cwd: Path, **variables: str) -> str:
    """Run a command; returns its output. Raises AssertionError with the output and errors if it fails."""
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}\n{result.stdout[-6000:]}\n{result.stderr[-6000:]}")
    return result.stdout


def python(*arguments: str | Path) -> list[str | Path]:
    """A command of this Python; with `-m`, packages of this environment."""
    return [sys.executable, *arguments]


@dataclass(frozen=True)
class Running:
    """The server, and the documents that it serves as files: `integration.json`, `administration.json`."""

    api: Api
    url: str
    documents: Path

    def document(self, surface: str) -> Path:
        """The file of one of the documents."""
        return self.documents / f"{surface}.json"

    def journey(self, command: Sequence[str | Path], *, cwd: Path, decimal: str, **variables: str) -> Any:
        """Run the journey that a command makes in a new organization; returns the results that it prints."""
        organization = self.api.organization("Journey")
        output = run(
            command,
            cwd=cwd,
            JOURNEY_URL=f"{self.url}/v2",
            JOURNEY_ORGANIZATION_ID=str(organization.id),
            JOURNEY_LEDGER_ID=str(organization.defaults.ledger_id),
            JOURNEY_CLIENT_ID=organization.defaults.client_id,
            JOURNEY_CLIENT_SECRET=organization.defaults.client_secret,
            JOURNEY_ADMIN_TOKEN=organization.token,
            JOURNEY_DECIMAL=decimal,
            **variables,
        )
        return json.loads(output.splitlines()[-1])


def expected_results(*, decimal: str) -> dict[str, Any]:
    """The results of every journey, regardless of the client."""
    return {
        "amounts": ["16777217", "16777217.55"],
        "decimal": decimal,
        "validFrom": "2026-01-01T03:00:00Z",
        "patched": {
            "publicLoyaltyMemberId": "A-2",
            "birthdate": "1992-02-29",
            "customAttributes": {"drink": "flat white"},
        },
        "cleared": None,
        "book": {
            "name": "Free espresso",
            "tags": ["coffee"],
            "channels": ["app"],
            "customAttributes": {"cup": "large"},
        },
        "coupons": ["FLAT-1", "FLAT-1"],
        "members": ["ben", "cleo", "dora", "eve", "ana"],
        "pages": 3,
        "found": ["cleo"],
        "later": 0,
        "problems": [
            {"status": 400, "type": "/problems/invalid-request", "pointers": ["/loyaltyMemberId"]},
            {"status": 404, "type": "/problems/not-found", "pointers": []},
            {"status": 409, "type": "/problems/member-exists", "pointers": []},
            {"status": 409, "type": "/problems/coupon-not-assigned", "pointers": []},
        ],
    }
