from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from handlers.settings import Settings
from tests.builders.api import Api, running_api
from tests.builders.tracking import Shop

THREADS = 32


@pytest.fixture(scope="session")
def busy_api(settings: Settings) -> Iterator[Api]:
    """The application with as many threads and connections as make calls meet; answers are not checked, to be quick."""
    with running_api(replace(settings, threads=THREADS, validate_responses=False)) as api:
        yield api


@pytest.fixture
def shop(busy_api: Api) -> Iterator[Shop]:
    """An organization of the test's own, whose ledger must be right in the end."""
    shop = Shop(busy_api.organization())
    yield shop
    shop.check_ledger()
