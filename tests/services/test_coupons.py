"""Coupons through the flows: what is assigned, used and reverted is what is stored."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.builders.coupon_shop import CouponShop, priced


@pytest.fixture
def shop(engine):
    made = CouponShop.new(engine)
    yield made
    made.check()


@pytest.mark.parametrize("type_", ["single", "list", "generated", "codeless"])
def test_a_coupon_is_assigned_used_and_taken_back(shop, type_):
    book, member = shop.book(type_), shop.member()
    if type_ in ("single", "list"):
        shop.add_codes(book, ["A"])
    [assigned] = shop.assign(member, book)
    used = shop.use(member, book)
    assert (used.coupon_id, used.updated_total_assigned, used.updated_total_usages) == (assigned.coupon_id, 1, 1)
    [coupon] = shop.coupons(book)
    assert (coupon.total_assigned, coupon.total_usages) == (1, 1)
    assert (coupon.code is None) == (type_ == "codeless")
    stored = shop.stored(book)
    assert (stored.total_assigned, stored.total_usages, stored.coupon_count) == (1, 1, 1)
    unused = shop.revert(used)
    assert (unused.amount_used, unused.reverted_usage_id) == (-1, used.coupon_usage_id)
    assert shop.usage(used).reversal_usage_id == unused.coupon_usage_id
    shop.revert(assigned)
    stored = shop.stored(book)
    assert (stored.total_assigned, stored.total_usages) == (0, 0)


def test_points_are_burned_and_given_back(shop):
    book = shop.book(**priced(shop, assignment_required_points=Decimal(3), usage_required_points=Decimal(2)))
    member = shop.member(points=10)
    [assigned] = shop.assign(member, book, amount=Decimal(2))
    assert shop.points(member) == 4
    used = shop.use(member, book)
    assert shop.points(member) == 2
    shop.revert(used)
    shop.revert(assigned)
    assert shop.points(member) == 10
