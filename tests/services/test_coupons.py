"""Coupons are assigned, used and reverted: the totals of coupon and book, and the member's points."""

from __future__ import annotations

from decimal import Decimal

import pytest

from domain.members import MemberErased
from handlers.services.coupons.assign_and_use import CouponCommand, CouponRequest, assign_coupons
from handlers.services.members.change import erase
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
    [assignment] = shop.assign(member, book)
    usage = shop.use(member, book)
    assert (usage.coupon_id, usage.updated_total_assigned, usage.updated_total_usages) == (assignment.coupon_id, 1, 1)
    [coupon] = shop.coupons(book)
    assert (coupon.total_assigned, coupon.total_usages) == (1, 1)
    assert (coupon.code is None) == (type_ == "codeless")
    current_book = shop.find_book(book)
    assert (current_book.total_assigned, current_book.total_usages, current_book.coupon_count) == (1, 1, 1)
    reversal = shop.revert(usage)
    assert (reversal.amount_used, reversal.reverted_usage_id) == (-1, usage.coupon_usage_id)
    assert shop.usage(usage).reversal_usage_id == reversal.coupon_usage_id
    shop.revert(assignment)
    current_book = shop.find_book(book)
    assert (current_book.total_assigned, current_book.total_usages) == (0, 0)


def test_coupons_burn_points_and_reverting_them_returns_the_points(shop):
    book = shop.book(**priced(shop, assignment_required_points=Decimal(3), usage_required_points=Decimal(2)))
    member = shop.member(points=10)
    [assignment] = shop.assign(member, book, amount=Decimal(2))
    assert shop.points(member) == 10 - 2 * 3
    usage = shop.use(member, book)
    assert shop.points(member) == 10 - 2 * 3 - 2
    shop.revert(usage)
    shop.revert(assignment)
    assert shop.points(member) == 10


def test_a_batch_refuses_only_the_request_of_a_member_who_was_erased_meanwhile(shop):
    book, ana, ben = shop.book(), shop.member(), shop.member()
    shop.run(lambda call: erase(call, ben))
    requests = [CouponRequest(member, book, CouponCommand()) for member in (ben, ana)]
    refusal, usages = shop.run(lambda call: assign_coupons([call, call], requests))
    assert isinstance(refusal, MemberErased)
    assert [usage.member_id for usage in usages] == [ana.member_id]
