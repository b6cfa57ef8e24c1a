from __future__ import annotations

from collections.abc import Iterator

import pytest

from handlers.settings import Settings
from tests.builders.api import Api, Organization, running_api


@pytest.fixture(scope="module")
def api(settings: Settings) -> Iterator[Api]:
    """The application on the test database."""
    with running_api(settings) as api:
        yield api


@pytest.fixture
def organization(api: Api) -> Organization:
    """An organization of the test's own."""
    return api.organization()
