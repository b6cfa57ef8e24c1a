"""Coupons through the flows: what is assigned, used and reverted is what is stored."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.builders.coupon_shop import CouponShop, priced


@pytest.fixture
def shop(engine):
    coupon_shop = CouponShop.new(engine)
    yield coupon_shop
    coupon_shop.check()


@pytest.mark.parametrize("type_", ["single", "list", "generated", "codeless"])
def test_a_coupon_is_assigned_used_and_reverted(shop, type_):
    book, member = shop.book(type_), shop.member()
    if type_ in ("single", "list"):
        shop.add_codes(book, ["A"])
    [assigned] = shop.assign(member, book)
    usage = shop.use(member, book)
    assert (usage.coupon_id, usage.updated_total_assigned, usage.updated_total_usages) == (assigned.coupon_id, 1, 1)
    [coupon] = shop.coupons(book)
    assert (coupon.total_assigned, coupon.total_usages) == (1, 1)
    assert (coupon.code is None) == (type_ == "codeless")
    current_book = shop.find_book(book)
    assert (current_book.total_assigned, current_book.total_usages, current_book.coupon_count) == (1, 1, 1)
    unused = shop.revert(usage)
    assert (unused.amount_used, unused.reverted_usage_id) == (-1, usage.coupon_usage_id)
    assert shop.usage(usage).reversal_usage_id == unused.coupon_usage_id
    shop.revert(assigned)
    current_book = shop.find_book(book)
    assert (current_book.total_assigned, current_book.total_usages) == (0, 0)


def test_points_are_burned_and_given_back(shop):
    book = shop.book(**priced(shop, assignment_required_points=Decimal(3), usage_required_points=Decimal(2)))
    member = shop.member(points=10)
    [assigned] = shop.assign(member, book, amount=Decimal(2))
    assert shop.points(member) == 4
    usage = shop.use(member, book)
    assert shop.points(member) == 2
    shop.revert(usage)
    shop.revert(assigned)
    assert shop.points(member) == 10
