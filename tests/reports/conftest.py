from __future__ import annotations

import pytest

from tests.builders.api import Api, Organization


@pytest.fixture
def organization(api: Api) -> Organization:
    """An organization of the test's own."""
    return api.organization()
