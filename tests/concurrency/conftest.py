from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Engine

from handlers.settings import Settings
from persistence.engine import create_engine
from tests.builders.api import Api, running_api
from tests.builders.coupon_shop import CouponShop
from tests.builders.tracking import Shop
from tests.conftest import SLOW_MS

THREADS = 32


@pytest.fixture(scope="session")
def busy_api(settings: Settings) -> Iterator[Api]:
    """The application with a thread and a connection for each call; responses are not validated, to be quick."""
    with running_api(replace(settings, threads=THREADS, validate_responses=False)) as api:
        yield api


@pytest.fixture
def shop(busy_api: Api) -> Iterator[Shop]:
    """A new organization, whose ledger is verified after the test."""
    shop = Shop(busy_api.organization())
    yield shop
    shop.check_ledger()


@pytest.fixture(scope="module")
def busy_engine(settings: Settings) -> Iterator[Engine]:
    """A database with a connection for each thread, and long timeouts, because locks last long on a busy machine."""
    engine = create_engine(
        settings.database_url,
        threads=THREADS,
        statement_timeout_ms=SLOW_MS,
        lock_timeout_ms=SLOW_MS,
        application_name="loyalty-tests-coupons",
    )
    yield engine
    engine.dispose()


@pytest.fixture
def coupon_shop(busy_engine: Engine) -> Iterator[CouponShop]:
    """A new organization, in which all sums of coupons are checked after the test."""
    shop = CouponShop.new(busy_engine)
    yield shop
    shop.check()
