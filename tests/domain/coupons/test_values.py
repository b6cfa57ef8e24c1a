"""Value coupons: each has its own value, from which uses take a part."""

from __future__ import annotations

from decimal import Decimal

import pytest

from domain.coupons.usages import AssignmentUsed, CouponNotAssigned, ValueExceeded
from domain.problems import InvalidRequest
from tests.builders.coupon_service import NO_DETAILS, shared_coupon


def cards(**settings):
    """A shop of gift cards of 20 each."""
    return shared_coupon(is_value_coupon=True, face_value=Decimal(20), **settings)


def test_assigned_value_coupons_have_their_face_value_unless_the_request_names_a_remaining_value():
    shop = cards()
    assert shop.assign(amount=Decimal(2)).remaining_value == 2 * 20
    assert shop.assign(remaining_value=Decimal(5)).remaining_value == 5
    # Coupons of other books have no value.
    assert shared_coupon(face_value=Decimal(20)).assign().remaining_value is None


def test_uses_reduce_the_value_of_a_coupon_until_it_is_0():
    shop = cards()
    shop.assign()
    [use_of_15] = shop.use(amount_discounted=Decimal(15))
    assert (use_of_15.amount_discounted, use_of_15.remaining_value, use_of_15.amount_used) == (15, 20 - 15, 0)
    [use_of_rest] = shop.use(amount_discounted=Decimal(5))
    assert (use_of_rest.amount_discounted, use_of_rest.remaining_value, use_of_rest.amount_used) == (5, 0, 1)
    with pytest.raises(CouponNotAssigned):
        shop.use(amount_discounted=Decimal(1))


def test_the_remaining_value_is_exact_for_any_number_of_digits():
    value, part = Decimal("18446744073708.9"), Decimal("1e-38")
    shop = shared_coupon(is_value_coupon=True, face_value=value)
    shop.assign(amount=Decimal(2))
    [use] = shop.use(amount_discounted=part)
    # Two values less the part.
    assert use.remaining_value == Decimal("36893488147417.79999999999999999999999999999999999999")
    reversal = shop.service.revert(use.coupon_usage_id, NO_DETAILS)
    assert (reversal.amount_discounted, reversal.remaining_value) == (-part, Decimal("36893488147417.8"))
    # A first coupon whose value is used up except for the smallest part does not count as used.
    [nearly_used] = shop.use(amount_discounted=Decimal("18446744073708.89999999999999999999999999999999999999"))
    assert nearly_used.amount_used == 0
    assert nearly_used.remaining_value == Decimal("18446744073708.90000000000000000000000000000000000001")


def test_a_use_of_a_value_coupon_needs_an_amount_of_at_most_the_remaining_value():
    shop = cards()
    shop.assign()
    with pytest.raises(InvalidRequest) as refusal:
        shop.use()
    assert [fault.pointer for fault in refusal.value.faults] == ["/amountDiscounted"]
    with pytest.raises(ValueExceeded, match=r"The use takes a value of 21; the coupon has 20 left\."):
        shop.use(amount_discounted=Decimal(21))
    assert [use.remaining_value for use in shop.use(amount_discounted=Decimal(20))] == [0]


def test_a_reverted_use_gives_its_value_back():
    shop = cards()
    assignment = shop.assign()
    [use] = shop.use(amount_discounted=Decimal(15))
    with pytest.raises(AssignmentUsed, match=r"0 of the 1 assigned coupons are used, and a value of 5 is"):
        shop.service.revert(assignment.coupon_usage_id, NO_DETAILS)
    reversal = shop.service.revert(use.coupon_usage_id, NO_DETAILS)
    assert (reversal.amount_discounted, reversal.remaining_value, reversal.amount_used) == (-15, 20, 0)
    assert shop.service.revert(assignment.coupon_usage_id, NO_DETAILS).amount_assigned == -1
