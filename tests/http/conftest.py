from __future__ import annotations

import pytest

from tests.builders.api import Api, Organization
from tests.builders.test_clocks import Clock


@pytest.fixture
def organization(api: Api) -> Organization:
    """A new organization for each test."""
    return api.organization()


@pytest.fixture
def clock(api: Api) -> Clock:
    """The clock of a new test organization for each test, at 1 March 2026, 10:00 in Madrid."""
    return Clock.new(api, starts_at="2026-03-01T09:00:00Z")


@pytest.fixture(scope="session")
def other_organization(api: Api) -> Organization:
    """Another organization, which must not see the records of the first."""
    return api.organization("Other tenant")
