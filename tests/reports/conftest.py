from __future__ import annotations

import pytest

from tests.builders.api import Api, Organization


@pytest.fixture
def organization(api: Api) -> Organization:
    """An organization that only this test uses."""
    return api.organization()
