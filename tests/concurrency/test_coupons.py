"""Coupons that many callers request at the same time: stock, quotas and limits are exact."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from domain.coupons.refusals import OutOfStock
from tests.builders.coupon_shop import priced
from tests.concurrency.conftest import THREADS
from tests.concurrency.simultaneous import outcomes, race, run_simultaneously


@pytest.fixture
def shop(coupon_shop):
    return coupon_shop


@pytest.mark.parametrize(
    ("type_", "stock"),
    [("list", {}), ("generated", {"max_coupon_count": 25}), ("codeless", {"max_coupon_count": 25})],
)
def test_25_coupons_go_to_25_of_100_calls(shop, type_, stock):
    book = shop.book(type_, **stock)
    if type_ == "list":
        shop.add_codes(book, [f"CODE-{n}" for n in range(25)])
    members = [shop.member() for _ in range(20)]
    calls = [lambda m=members[n % 20]: shop.assign(m, book) for n in range(100)]
    assert outcomes(calls) == {"done": 25, "coupon-out-of-stock": 75}
    assert shop.find_book(book).total_assigned == 25
    if type_ != "codeless":
        assert [coupon.total_assigned for coupon in shop.coupons(book)] == [1] * 25


def test_a_shared_code_is_assigned_up_to_its_cap(shop):
    book = shop.book("single", max_assigned_per_coupon=50)
    shop.add_codes(book, ["ALL"])
    members = [shop.member() for _ in range(20)]
    calls = [lambda m=members[n % 20]: shop.assign(m, book, codes=("ALL",)) for n in range(120)]
    assert outcomes(calls) == {"done": 50, "coupon-out-of-stock": 70}


def test_a_code_of_a_list_that_many_members_request_is_assigned_to_one(shop):
    book = shop.book("list")
    shop.add_codes(book, ["A", "B", "C"])
    members = [shop.member() for _ in range(THREADS)]
    calls = [
        lambda member=member, code=code: shop.assign(member, book, codes=(code,))
        for member in members
        for code in "ABC"
    ]
    random.Random(1).shuffle(calls)
    assert outcomes(calls) == {"done": 3, "coupon-code-held": 3 * THREADS - 3}


def test_no_member_gets_more_coupons_than_the_quota(shop):
    book, members = shop.book("generated", max_assigned_per_member=3), [shop.member(), shop.member()]
    calls = [lambda m=members[n % 2]: shop.assign(m, book) for n in range(60)]
    # The quota of 3 for each of the two members.
    assert outcomes(calls) == {"done": 2 * 3, "coupon-quota": 60 - 2 * 3}


def test_no_member_has_more_uses_or_discounts_than_the_limits_of_a_period(shop):
    book = shop.book(max_usages_per_period=5, usage_period_type="daily", timezone="Asia/Tokyo")
    discount_book = shop.book(max_discount_per_period=Decimal(10), discount_period_type="monthly")
    members = [shop.member(), shop.member()]
    for member in members:
        shop.assign(member, book, amount=Decimal(100))
        shop.assign(member, discount_book, amount=Decimal(100))
    uses = [lambda m=members[n % 2]: shop.use(m, book) for n in range(60)]
    # Five uses of each member.
    assert outcomes(uses) == {"done": 2 * 5, "coupon-usage-limit": 60 - 2 * 5}
    discounted_uses = [
        lambda m=members[n % 2]: shop.use(m, discount_book, amount_discounted=Decimal(3)) for n in range(60)
    ]
    # Each member gets 3 discounts of 3; a fourth would exceed 10.
    assert outcomes(discounted_uses) == {"done": 2 * 3, "coupon-discount-limit": 60 - 2 * 3}


def test_a_value_coupon_of_12_can_be_used_12_times_for_1(shop):
    book = shop.book(is_value_coupon=True, face_value=Decimal(12))
    member = shop.member()
    shop.assign(member, book)
    uses = [lambda: shop.use(member, book, amount_discounted=Decimal(1)) for _ in range(20)]
    assert outcomes(uses) == {"done": 12, "coupon-not-assigned": 8}
    # The coupon counts as used once its whole value is used.
    assert shop.find_book(book).total_usages == 1


def test_a_use_and_the_revert_of_its_assignment_exclude_each_other(shop):
    book = shop.book("list")
    shop.add_codes(book, [f"R-{n}" for n in range(12)])

    for _ in range(12):
        member = shop.member()
        [assignment] = shop.assign(member, book)
        results = race(lambda m=member: shop.use(m, book), lambda a=assignment: shop.revert(a))
        assert results in (("done", "coupon-assignment-used"), ("coupon-not-assigned", "done"))


def test_a_usage_is_reverted_only_once_and_its_points_are_returned_only_once(shop):
    book = shop.book(**priced(shop, usage_required_points=Decimal(4)))
    member = shop.member(points=4)
    shop.assign(member, book)
    usage = shop.use(member, book)
    assert outcomes([lambda: shop.revert(usage)] * 20) == {"done": 1, "coupon-usage-reverted": 19}
    assert shop.points(member) == 4


def test_many_calls_with_one_key_create_one_usage(shop):
    book = shop.book("generated")
    members = [shop.member(), shop.member()]
    calls = [lambda m=members[n % 2]: shop.assign(m, book, keys=("once",)) for n in range(40)]
    # The calls for the member of the first one succeed as repetitions; the other member's are refused.
    assert outcomes(calls) == {"done": 20, "key-reused": 20}
    assert shop.find_book(book).total_assigned == 1


def test_codes_whose_assignment_is_reverted_are_assigned_again_under_load(shop):
    book = shop.book("list")
    shop.add_codes(book, [f"T-{n}" for n in range(6)])
    members = [shop.member() for _ in range(12)]

    def visit(member):
        for _ in range(6):
            try:
                [assignment] = shop.assign(member, book)
            except OutOfStock:
                continue
            shop.revert(assignment)

    run_simultaneously([lambda member=member: visit(member) for member in members])
    assert shop.find_book(book).total_assigned == 0


def test_a_coupon_that_twenty_members_lock_is_locked_by_one(shop):
    shared_book, list_book, personal_book = shop.book(max_coupon_count=1), shop.book("list"), shop.book()
    shop.add_codes(list_book, ["A"])
    members = [shop.member() for _ in range(20)]
    assert outcomes([lambda member=member: shop.lock(member, shared_book, auto_assign=True) for member in members]) == {
        "done": 1,
        "coupon-out-of-stock": 19,
    }
    assert outcomes(
        [lambda member=member: shop.lock(member, list_book, code="A", auto_assign=True) for member in members]
    ) == {
        "done": 1,
        "coupon-locked": 19,
    }
    # A locked coupon is assigned to no other member.
    assert outcomes([lambda member=member: shop.assign(member, list_book) for member in members]) == {
        "coupon-out-of-stock": 20
    }
    shop.assign(members[0], personal_book)
    assert outcomes([lambda: shop.lock(members[0], personal_book) for _ in range(20)]) == {
        "done": 1,
        "coupon-locked": 19,
    }
