"""The primary database is killed under load and its standby promoted: the server finds it, and no event is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import make_url, text

from handlers.settings import Settings
from persistence import embedded
from persistence.engine import autocommit, create_engine
from tests.builders.api import running_api
from tests.builders.campaigns import mint
from tests.builders.tracking import ORDER_CREATED, Shop, order, running
from tests.processes.fleet import disposed, kill_database, verify_all, wait_until
from tests.processes.standby import PRIMARY, standby_of

TILLS = 4


@pytest.fixture
def shop(home: Path) -> Iterator[Shop]:
    """An organization with 1 point for each order; the server has both addresses, and commits wait for the standby."""
    standby_home, options = standby_of(home)
    with (
        embedded.server(home, options={**PRIMARY, "synchronous_standby_names": "*"}) as url,
        embedded.server(standby_home, options=options) as standby_url,
        running_api(Settings(database_url=url_of_both(url, standby_url), home=home)) as api,
    ):
        shop = Shop(api.organization())
        shop.campaign(running(mint(1)), eventType=ORDER_CREATED)
        yield shop


def url_of_both(primary_url: str, standby_url: str) -> str:
    """A URL with both databases, of which the client uses the one that accepts writes."""
    primary, standby = make_url(primary_url), make_url(standby_url)
    query = {"host": (primary.query["host"], standby.query["host"]), "target_session_attrs": "read-write"}
    return primary.set(query=query).render_as_string(hide_password=False)


def test_no_acknowledged_event_is_lost(shop: Shop, home: Path) -> None:
    acknowledged_keys: list[str] = []
    tills_close = threading.Event()

    def send_orders(member: str) -> None:
        """Send orders one after the other, each again and again until the server confirms it."""
        number = 0
        while not tills_close.is_set():
            number += 1
            sale = {**order(member), "systemUniqueKey": f"{member}-{number}"}
            wait_until(lambda sale=sale: is_tracked(shop, sale))
            acknowledged_keys.append(sale["systemUniqueKey"])

    members = [shop.member() for _ in range(TILLS)]
    with (
        disposed(create_engine(standby_url(shop), threads=1)) as standby,
        ThreadPoolExecutor(TILLS) as pool,
    ):
        tills = [pool.submit(send_orders, member) for member in members]
        try:
            wait_until(lambda: len(acknowledged_keys) > 20)
            kill_database(home)
            count_before = len(acknowledged_keys)
            with autocommit(standby).connect() as db:
                assert db.execute(text("SELECT pg_promote()")).scalar_one()
            wait_until(lambda: len(acknowledged_keys) > count_before + 20)
        finally:
            tills_close.set()
        for future in tills:
            future.result()
        with standby.connect() as db:
            keys = db.execute(text("SELECT system_unique_key FROM events WHERE event_type = :t"), {"t": ORDER_CREATED})
            assert sorted(keys.scalars()) == sorted(acknowledged_keys)
            assert verify_all(db) == []
    # A point for each order.
    assert sum(shop.balance(member) for member in members) == len(acknowledged_keys)


def is_tracked(shop: Shop, sale: dict) -> bool:
    """Track an order; return False if the server has no database at the moment."""
    reply = shop.integration.request("POST", "/events/track", {"events": [sale]})
    if reply.status == 200:
        return True
    assert reply.status == 503
    time.sleep(0.05)
    return False


def standby_url(shop: Shop) -> str:
    """The URL of the standby only."""
    url = make_url(shop.organization.api.settings.database_url)
    return url.set(query={"host": url.query["host"][1]}).render_as_string(hide_password=False)
