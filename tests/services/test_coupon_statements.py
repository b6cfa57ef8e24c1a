"""The work that coupons give the database: the same number of statements for one and for many."""

from __future__ import annotations

from decimal import Decimal

import pytest

from handlers.services.coupons import assign_and_use
from handlers.services.coupons.assign_and_use import BatchItem
from handlers.services.coupons.revert import revert_code
from tests.builders.coupon_shop import CouponShop, priced
from tests.builders.statements import count

TYPES = ("single", "list", "generated", "codeless")


@pytest.fixture(scope="module")
def shop(engine):
    return CouponShop.new(engine)


@pytest.fixture(scope="module")
def members(shop):
    return [shop.member(points=10_000) for _ in range(100)]


def book_of(shop, type_):
    book = shop.book(type_, **priced(shop, assignment_required_points=Decimal(1)), max_assigned_per_member=10**6)
    if type_ in ("single", "list"):
        shop.add_codes(book, [f"S-{n}" for n in range(1 if type_ == "single" else 1500)])
    return book


@pytest.mark.parametrize("type_", TYPES)
def test_a_batch_of_100_members_costs_as_much_as_one(shop, members, type_):
    book = book_of(shop, type_)

    def batch(size):
        items = [BatchItem(member.member_id, None, None) for member in members[:size]]

        def call():
            found = shop.run(lambda call: assign_and_use.assign_to_members(call, book, items, None))
            assert all(each.usage is not None for each in found)

        return count(shop.engine, call)

    batch(1)
    assert batch(2) == batch(20) == batch(100)
    assert batch(100) < 45


@pytest.mark.parametrize("type_", TYPES)
def test_a_thousand_codes_for_one_member_cost_as_much_as_two(shop, members, type_):
    book = book_of(shop, type_)

    def assign(codes):
        def call():
            assert len(shop.assign(members[0], book, count=codes)) == codes

        return count(shop.engine, call)

    assign(1)
    assert assign(2) == assign(1000)


def test_reverting_all_uses_of_a_code_costs_as_much_as_reverting_one(shop, members):
    book = shop.book("single", **priced(shop, usage_required_points=Decimal(1)))
    [coupon] = shop.add_codes(book, ["ALL"])
    shop.assign(members[0], book, amount=Decimal(100))

    def revert(uses):
        for _ in range(uses):
            shop.use(members[0], book)

        def call():
            found = shop.run(lambda call: revert_code(call, members[0], coupon, all_of_them=True))
            assert len(found.outcomes) == uses

        return count(shop.engine, call)

    revert(1)
    assert revert(2) == revert(30)
