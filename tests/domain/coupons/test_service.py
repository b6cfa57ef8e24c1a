"""Assigning, using and reverting without a database: the order of lots, and that a refusal changes nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from domain.coupons.charges import UsageDetails
from domain.coupons.lots import period_starts
from domain.coupons.refusals import DiscountLimitReached, OutOfStock, UsageLimitReached
from domain.coupons.usages import (
    AssignmentUsed,
    CouponExpired,
    CouponNotAssigned,
    UsageNotRevertible,
    UsageReverted,
)
from domain.problems import Conflict
from tests.builders.coupon_service import BEN, NO_DETAILS, NOW, Shop, shared_coupon
from tests.builders.coupon_values import coupon_book


def test_codes_are_assigned_in_order_across_fetches():
    # The supply brings two codes at a time.
    shop = Shop(codes=5)
    assert [shop.assign().coupon_id for _ in range(5)] == [1, 2, 3, 4, 5]
    with pytest.raises(OutOfStock):
        shop.assign()


def test_a_code_that_another_member_requested_is_skipped():
    shop = Shop()
    requested_coupon = shop.coupon(1, "C-1")
    shop.state.put_coupons([requested_coupon])
    assert shop.assign(BEN, coupon=requested_coupon).coupon_id == 1
    assert shop.assign().coupon_id == 2


def snapshot_without_coupons(shop):
    """The state of a shop without the totals of coupons: codes that were fetched meanwhile stay in memory."""
    lots_of_members, _, total_of_book, new_usages = shop.snapshot()
    return lots_of_members, total_of_book, new_usages


def test_a_refused_assignment_changes_nothing_and_leaves_its_code_free():
    shop = Shop()
    shop.assign()
    snapshot_before = snapshot_without_coupons(shop)
    shop.charge.refuses = True
    with pytest.raises(Conflict, match="no points"):
        shop.assign()
    assert snapshot_without_coupons(shop) == snapshot_before
    shop.charge.refuses = False
    assert shop.assign().coupon_id == 2


def test_a_rollback_undoes_all_work_since_the_savepoint():
    shop = Shop()
    shop.assign()
    snapshot_before, savepoint = snapshot_without_coupons(shop), shop.state.savepoint()
    shop.use()
    shop.assign(BEN, amount=Decimal(4))
    shop.service.revert(1, NO_DETAILS, force=True)
    assert snapshot_without_coupons(shop) != snapshot_before
    shop.state.rollback_to(savepoint)
    assert snapshot_without_coupons(shop) == snapshot_before
    assert shop.service.is_active(1)


@pytest.mark.parametrize(
    # The charges of the assignment and of the use.
    ("details", "charges"),
    [
        (NO_DETAILS, [7, 0]),
        (UsageDetails(points_override=Decimal(5)), [0, 5]),
        (UsageDetails(pending_burn_id=5), [0, 0]),
    ],
)
def test_a_use_that_sets_its_points_assigns_the_coupon_without_points(details, charges):
    shop = Shop(assignment_required_points=Decimal(7))
    shop.use(details=details, auto_assign=True)
    assert shop.charge.payments == charges


def test_the_lot_that_expires_soonest_is_used_first():
    shop = Shop()
    id_for_nine_days = shop.assign(expires_at=NOW + timedelta(days=9)).coupon_id
    unlimited_id = shop.assign().coupon_id
    id_for_a_day = shop.assign(expires_at=NOW + timedelta(days=1)).coupon_id
    used_ids = [use.coupon_id for use in shop.use(amount=Decimal(3))]
    assert used_ids == [id_for_a_day, id_for_nine_days, unlimited_id]
    with pytest.raises(CouponNotAssigned):
        shop.use()


def test_an_expired_lot_is_used_only_with_the_bypass():
    shop = Shop()
    shop.assign(expires_at=NOW)
    with pytest.raises(CouponExpired):
        shop.use()
    assert len(shop.use(bypass_restrictions=True)) == 1


@pytest.mark.parametrize(
    ("max_usages", "max_discount", "refusal"), [(1, 99, UsageLimitReached), (9, 5, DiscountLimitReached)]
)
def test_a_use_above_a_limit_of_the_period_is_refused_without_the_bypass(max_usages, max_discount, refusal):
    daily = {"usage_period_type": "daily", "discount_period_type": "daily"}
    shop = shared_coupon(max_usages_per_period=max_usages, max_discount_per_period=Decimal(max_discount), **daily)
    shop.assign(amount=Decimal(3))
    assert len(shop.use(amount_discounted=Decimal(4))) == 1
    with pytest.raises(refusal):
        shop.use(amount_discounted=Decimal(4))
    assert len(shop.use(bypass_restrictions=True, amount_discounted=Decimal(4))) == 1
    assert (shop.totals_of_ana().used, shop.totals_of_ana().discounted) == (2, 8)


def test_the_discounts_of_a_period_are_added_exactly():
    limit = Decimal("18446744073708.9")
    shop = shared_coupon(max_discount_per_period=limit, discount_period_type="daily")
    shop.assign(amount=Decimal(2))
    [use] = shop.use(amount_discounted=Decimal("1e-38"))
    with pytest.raises(DiscountLimitReached):
        shop.use(amount_discounted=limit)
    shop.service.revert(use.coupon_usage_id, NO_DETAILS)
    assert len(shop.use(amount_discounted=limit)) == 1
    assert shop.totals_of_ana().discounted == limit


def amounts_and_used_amounts(shop):
    """(amount, used amount) of each lot."""
    return [(lot.amount, lot.amount_used) for lot in shop.state.lots.values()]


def test_each_assignment_has_its_own_expiry():
    shop = shared_coupon()
    shop.assign(expires_at=NOW, amount=Decimal(2), coupon_data={"seat": 1})
    with pytest.raises(CouponExpired):
        shop.use()
    shop.assign(coupon_data={"seat": 2})
    shop.assign(expires_at=NOW + timedelta(days=1), coupon_data={"seat": 3})
    assert [use.coupon_lot_id for use in shop.use(amount=Decimal(2))] == [3, 2]
    assert amounts_and_used_amounts(shop) == [(2, 0), (1, 1), (1, 1)]
    with pytest.raises(CouponExpired):
        shop.use()
    assert len(shop.use(bypass_restrictions=True, amount=Decimal(2))) == 2
    assert amounts_and_used_amounts(shop) == [(2, 2), (1, 1), (1, 1)]
    with pytest.raises(CouponNotAssigned):
        shop.use(bypass_restrictions=True)


def test_a_reverted_use_returns_to_its_lot():
    shop = shared_coupon()
    shop.assign(expires_at=NOW + timedelta(days=1))
    shop.assign()
    [use_of_first_lot], [use_of_second_lot] = shop.use(), shop.use()
    shop.service.revert(use_of_first_lot.coupon_usage_id, NO_DETAILS)
    assert amounts_and_used_amounts(shop) == [(1, 0), (1, 1)]
    shop.service.revert(use_of_second_lot.coupon_usage_id, NO_DETAILS)
    assert amounts_and_used_amounts(shop) == [(1, 0), (1, 0)]


def test_a_reverted_assignment_takes_from_its_own_lot():
    shop = shared_coupon()
    assignment_of_1 = shop.assign()
    assignment_of_3 = shop.assign(expires_at=NOW + timedelta(days=1), amount=Decimal(3))
    shop.use(amount=Decimal(4))
    # The usages 1 and 2 are the assignments. The uses 3 to 5 are of the second lot, which expires, and 6 of the first.
    shop.service.revert(4, NO_DETAILS)
    assert amounts_and_used_amounts(shop) == [(1, 1), (3, 2)]
    for assignment in (assignment_of_1, assignment_of_3):
        with pytest.raises(AssignmentUsed):
            shop.service.revert(assignment.coupon_usage_id, NO_DETAILS)
    # 3 of the 4 assigned coupons are reverted, although 2 of them are used. The 3 uses remain.
    reversal = shop.service.revert(assignment_of_3.coupon_usage_id, NO_DETAILS, force=True)
    assert (reversal.amount_assigned, reversal.updated_total_assigned, reversal.updated_total_usages) == (-3, 1, 3)
    with pytest.raises(CouponNotAssigned):
        shop.use()
    # The shortfall of a forced revert is not taken from later coupons.
    shop.assign()
    assert len(shop.use()) == 1


@pytest.mark.parametrize("used_amount", [1, 3])
def test_used_coupons_of_a_reversed_assignment_are_clawed_back_when_their_use_is_reverted(used_amount):
    shop = shared_coupon()
    assignment = shop.assign(amount=Decimal(3))
    # One use for each coupon.
    uses = shop.use(amount=Decimal(used_amount))
    shop.service.reverse_unused_part(assignment.coupon_usage_id, NO_DETAILS)
    # The coupons that are not used are clawed back at once.
    assert amounts_and_used_amounts(shop) == [(used_amount, used_amount)]
    for use in uses:
        reversal = shop.service.revert(use.coupon_usage_id, NO_DETAILS)
        assert (reversal.amount_used, reversal.amount_assigned) == (-1, -1)
    assert amounts_and_used_amounts(shop) == [(0, 0)]
    assert shop.stored_book.total_assigned == 0
    assert not shop.service.is_active(assignment.coupon_usage_id)


def test_a_code_of_one_member_has_the_expiry_and_data_of_its_lots():
    shop = Shop()
    assignment = shop.assign(expires_at=NOW + timedelta(days=1), coupon_data={"n": 1})
    code = shop.state.coupons[assignment.coupon_id]
    shop.assign(coupon=code, expires_at=NOW + timedelta(days=3), coupon_data={"n": 2})
    expiries_and_data = []
    for _ in range(2):
        coupon = shop.state.coupons[code.coupon_id]
        expiries_and_data.append((coupon.expired_at, coupon.custom_attributes))
        shop.use()
    # The code has the expiry of its last lot, and the data of the lot that is used next.
    assert expiries_and_data == [(NOW + timedelta(days=3), {"n": 1}), (NOW + timedelta(days=3), {"n": 2})]
    assert shop.state.coupons[code.coupon_id].custom_attributes == {"n": 2}


def test_the_price_depends_on_the_amount():
    shop = Shop(assignment_required_points=Decimal(3), usage_required_points=Decimal(2))
    shop.assign(amount=Decimal(5))
    shop.use(amount=Decimal(2))
    # The assignment pays once, and each of the two uses of a code.
    assert shop.charge.payments == [5 * 3, 2, 2]


def test_the_reversal_of_an_assignment_takes_only_its_unused_coupons():
    shop = Shop()
    assignment = shop.assign(amount=Decimal(3))
    shop.use()
    reversal = shop.service.reverse_unused_part(assignment.coupon_usage_id, NO_DETAILS)
    assert (reversal.amount_assigned, reversal.updated_total_assigned) == (-(3 - 1), 1)
    used_up_assignment = shop.assign()
    shop.use(coupon=shop.state.coupons[used_up_assignment.coupon_id])
    assert shop.service.reverse_unused_part(used_up_assignment.coupon_usage_id, NO_DETAILS) is None


def test_a_fully_reverted_coupon_has_no_expiry_or_data():
    shop = Shop()
    assignment = shop.assign(expires_at=NOW + timedelta(days=1), coupon_data={"seat": 4})
    shop.service.revert(assignment.coupon_usage_id, NO_DETAILS)
    member_coupon = shop.state.member_coupons[1, assignment.coupon_id]
    assert (member_coupon.amount_assigned, member_coupon.expired_at, member_coupon.custom_attributes) == (0, None, {})
    assert shop.state.coupons[assignment.coupon_id].expired_at is None


def test_periods_begin_at_midnight_of_the_book():
    limits = {"max_usages_per_period": 1, "max_discount_per_period": Decimal(1)}
    book = coupon_book(**limits, usage_period_type="daily", discount_period_type="monthly", timezone="Europe/Lisbon")
    # NOW is 29 March 2026: clocks in Lisbon went forward that morning, after midnight.
    assert period_starts(book, NOW, UTC) == (
        datetime(2026, 3, 29, tzinfo=UTC),
        datetime(2026, 3, 1, tzinfo=UTC),
    )
    sao_paulo = replace(book, timezone="America/Sao_Paulo")
    # 4 November 2018 had no midnight in Sao Paulo: the day began at one o'clock.
    begin_of_day, _ = period_starts(sao_paulo, datetime(2018, 11, 4, 12, tzinfo=UTC), UTC)
    assert begin_of_day == datetime(2018, 11, 4, 3, tzinfo=UTC)
    assert period_starts(coupon_book(), NOW, UTC) == (None, None)


def test_an_assigned_coupon_is_recorded_with_its_details():
    shop = Shop()
    details = UsageDetails(
        system_unique_key="k",
        request_digest=b"digest",
        external_id="till-1",
        description="Free",
        tags=("a",),
        custom_attributes={"n": 1},
        loyalty_event_id=9,
    )
    usage = shop.assign(details=details, amount=Decimal(2), coupon_data={"seat": 1})
    assert (usage.system_unique_key, usage.request_digest, usage.external_id) == ("k", b"digest", "till-1")
    assert (usage.description, usage.tags, usage.custom_attributes) == ("Free", ["a"], {"n": 1})
    assert (usage.loyalty_event_id, usage.code, usage.coupon_book_id) == (9, "C-1", 12)
    assert (usage.amount_assigned, usage.amount_used, usage.amount_discounted) == (2, 0, None)
    assert (usage.coupon_usage_id, usage.coupon_lot_id, usage.is_use) == (1, 1, False)
    assert (usage.created_at, usage.updated_at, usage.reverted_usage_id) == (NOW, NOW, None)
    assert shop.state.lots[1].custom_attributes == {"seat": 1}


def test_a_use_that_assigns_its_coupon_charges_the_points_of_its_call_only_for_the_use():
    shop = Shop(assignment_required_points=Decimal(3))
    [usage] = shop.use(auto_assign=True)
    assert usage.is_use
    # The price of the assignment, and that of the use.
    assert shop.charge.payments == [3, 0]
    details = UsageDetails(points_override=Decimal(7), description="Why", external_id="till-1")
    shop.use(auto_assign=True, details=details)
    # The points of the call are those of the use; the assignment costs nothing then.
    assert shop.charge.payments == [3, 0, 0, 7]
    assignment, use = shop.state.new_usages[-2:]
    assert (assignment.description, assignment.external_id, use.external_id) == ("Why", None, "till-1")


def test_a_usage_is_reverted_once_and_a_reversal_never():
    shop = Shop()
    assignment = shop.assign()
    reversal = shop.service.revert(assignment.coupon_usage_id, NO_DETAILS)
    assert (reversal.reverted_usage_id, reversal.amount_assigned) == (assignment.coupon_usage_id, -1)
    assert not shop.service.is_active(assignment.coupon_usage_id)
    assert not shop.service.is_active(reversal.coupon_usage_id)
    # There is no usage with this id.
    assert not shop.service.is_active(99)
    with pytest.raises(UsageReverted, match="has already been reverted"):
        shop.service.revert(assignment.coupon_usage_id, NO_DETAILS)
    with pytest.raises(UsageNotRevertible, match="is a reversal"):
        shop.service.revert(reversal.coupon_usage_id, NO_DETAILS)


def test_a_reverted_use_returns_its_discount():
    daily = {"usage_period_type": "daily", "discount_period_type": "daily"}
    shop = Shop(max_discount_per_period=Decimal(9), max_usages_per_period=1, **daily)
    shop.assign(amount=Decimal(2))
    [use] = shop.use(amount_discounted=Decimal(4))
    assert (use.amount_discounted, shop.totals_of_ana().discounted, shop.totals_of_ana().used) == (4, 4, 1)
    reversal = shop.service.revert(use.coupon_usage_id, NO_DETAILS)
    assert (reversal.amount_discounted, reversal.amount_used) == (-4, -1)
    assert (shop.totals_of_ana().discounted, shop.totals_of_ana().used) == (0, 0)


def test_a_use_that_no_assignment_covers_is_reverted_by_its_own_amount():
    shop = Shop()
    shop.assign()
    [use] = shop.use()
    shop.state.add_usage(replace(use, coupon_usage_id=90, coupon_lot_id=None))
    reversal = shop.service.revert(90, NO_DETAILS)
    assert (reversal.amount_used, reversal.amount_assigned, reversal.remaining_value) == (-1, 0, None)
    assert shop.stored_book.total_usages == 0


def test_a_coupon_whose_use_is_reversed_is_unused_again():
    shop = Shop()
    shop.assign()
    [use] = shop.use()
    assert shop.service.reverse_unused_part(use.coupon_usage_id, NO_DETAILS).amount_used == -1
    assert [lot.unused_amount for lot in shop.state.lots.values()] == [1]
