from __future__ import annotations

from collections.abc import Iterator

import pytest

from handlers.settings import Settings
from tests.builders.api import Api, Organization, running_api
from tests.builders.test_clocks import Clock


@pytest.fixture(scope="session")
def api(settings: Settings) -> Iterator[Api]:
    """The application on the test database."""
    with running_api(settings) as api:
        yield api


@pytest.fixture
def organization(api: Api) -> Organization:
    """An organization of the test's own."""
    return api.organization()


@pytest.fixture
def clock(api: Api) -> Clock:
    """The clock of a test organization of the test's own, at 1 March 2026, 10:00 in Madrid."""
    return Clock.new(api, "2026-03-01T09:00:00Z")


@pytest.fixture(scope="session")
def other_organization(api: Api) -> Organization:
    """Another tenant, from whom everything is hidden."""
    return api.organization("Other tenant")
