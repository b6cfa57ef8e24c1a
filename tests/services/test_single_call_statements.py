"""How many statements the most frequent calls take if they are not batched."""

from __future__ import annotations

import pytest

from tests.builders.statements import count
from tests.builders.tracking import WHOLE_DOLLARS, Shop, key, order, running


@pytest.fixture(scope="module")
def shop(api):
    shop = Shop(api.organization())
    shop.campaign(running(WHOLE_DOLLARS))
    return shop


@pytest.fixture(scope="module")
def member(shop):
    member = shop.member()
    shop.track(order(member))
    return member


def statements(shop, call):
    """The number of statements of a call, which is made three times: then the configuration is cached."""
    return [count(shop.engine, call) for _ in range(3)][-1]


def test_an_event_that_mints_takes_9_statements(shop, member):
    assert statements(shop, lambda: shop.track(order(member))) == 9


def test_a_mint_takes_8_statements(shop, member):
    path = f"/members/by-loyalty-member-id/{member}/mint"

    def mint():
        shop.administration.post(path, {"amount": 5, "systemUniqueKey": key()}, expect=200)

    assert statements(shop, mint) == 8


def test_a_coupon_use_that_also_assigns_takes_15_statements(shop, member):
    book = {"name": "Free coffee", "type": "codeless", "publishingStatus": "published"}
    book_key = shop.integration.post("/coupon-books", book)["couponBook"]["couponBookKey"]
    path = f"/members/{member}/coupon-books/{book_key}/use"

    def use():
        shop.integration.post(path, {"autoAssign": True, "systemUniqueKey": key()}, expect=200)

    assert statements(shop, use) == 15


def test_reading_a_member_takes_1_statement(shop, member):
    assert statements(shop, lambda: shop.integration.get(f"/members/{member}")) == 1
