"""The rules of eligibility, one by one and together."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from domain.coupons.books import ARCHIVED, CODELESS, DISABLED, DRAFT, GENERATED, LIST, PUBLISHED, SINGLE, stock_left
from domain.coupons.eligibility import (
    ASSIGN,
    ASSIGN_AND_USE,
    EXCLUSIONS,
    PERIOD_LIMITS,
    USE,
    Attempt,
    MemberFacts,
    exclusions,
    exclusions_from_list,
    is_usable,
    refuse_excluded,
)
from domain.coupons.refusals import DiscountTooHigh, OutOfStock, TierNotEligible
from domain.expressions import Deadline, TimeExceeded
from tests.builders.coupon_values import coupon_book

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)  # a Wednesday
MICROSECOND = timedelta(microseconds=1)


def facts(**fields):
    """The facts about a member at NOW."""
    return MemberFacts(at=NOW, **fields)


def slugs(book, member_facts=None, attempt=None, without=()):
    """The slugs of all exclusions of a member from a book, but for those named by `without`."""
    return [
        exclusion.slug
        for exclusion in exclusions(book, member_facts or facts(), attempt or Attempt(ASSIGN_AND_USE), without)
    ]


def test_a_plain_book_is_never_refused():
    assert slugs(coupon_book()) == []
    refuse_excluded(coupon_book(), facts(), Attempt(ASSIGN_AND_USE))


@pytest.mark.parametrize(
    ("total", "refusal_slugs"),
    [(None, []), ("29.99", ["coupon-order-total"]), ("30", []), ("30.01", [])],
)
def test_the_minimum_total_of_an_order_limits_assignment_and_use(total, refusal_slugs):
    book = coupon_book(min_order_total=Decimal(30))
    order_total = None if total is None else Decimal(total)
    for purpose in (ASSIGN, USE, ASSIGN_AND_USE):
        attempt = Attempt(purpose, order_total=order_total)
        assert slugs(book, attempt=attempt) == refusal_slugs
        assert slugs(coupon_book(), attempt=attempt) == []
    listed_exclusions = exclusions_from_list(book, facts(), order_total)
    assert [exclusion.slug for exclusion in listed_exclusions] == refusal_slugs


@pytest.mark.parametrize(
    ("status", "slug"),
    [
        (DRAFT, ["coupon-book-not-published"]),
        (PUBLISHED, []),
        (DISABLED, ["coupon-book-not-published"]),
        (ARCHIVED, ["coupon-book-archived"]),
    ],
)
def test_only_published_books_can_be_assigned_or_used(status, slug):
    for purpose in (ASSIGN, USE, ASSIGN_AND_USE):
        assert slugs(coupon_book(publishing_status=status), attempt=Attempt(purpose)) == slug


def test_a_book_is_valid_at_both_ends_of_its_validity():
    for begin, end, refusal_slugs in (
        (NOW, NOW, []),
        (NOW + MICROSECOND, None, ["coupon-book-not-yet-valid"]),
        (None, NOW - MICROSECOND, ["coupon-book-expired"]),
        (NOW - MICROSECOND, NOW + MICROSECOND, []),
    ):
        assert slugs(coupon_book(valid_from_date=begin, valid_to_date=end)) == refusal_slugs


def test_days_of_the_week_are_those_of_the_book_zone():
    assert slugs(coupon_book(days_of_week=[3])) == []
    assert slugs(coupon_book(days_of_week=[1, 2, 4, 5, 6, 7])) == ["coupon-book-day"]
    # Wednesday in UTC, and Thursday in Tokyo.
    facts_at_23_00 = replace(facts(), at=datetime(2026, 3, 4, 23, tzinfo=UTC))
    assert slugs(coupon_book(days_of_week=[4], timezone="Asia/Tokyo"), facts_at_23_00) == []
    assert slugs(coupon_book(days_of_week=[4]), facts_at_23_00) == ["coupon-book-day"]


def test_one_of_the_tiers_and_one_of_the_audiences_are_enough():
    book = coupon_book(tier_keys=["gold", "iron"], audience_keys=["a", "b"])
    assert slugs(book) == ["coupon-book-tier", "coupon-book-audience"]
    assert slugs(book, facts(tier_keys={"iron"}, audience_keys={"c", "b"})) == []


def test_a_book_is_refused_unless_its_condition_holds():
    context = {
        "tiers": ["gold"],
        "audiences": [],
        "balances": {"p": Decimal(3)},
        "badges": {},
        "member": {},
        "now": NOW,
    }
    for text, refusal_slugs in (
        ("'gold' in tiers", []),
        ("balances['p'] > 3", ["coupon-book-condition"]),
        ("balances['q'] > 3", ["coupon-book-condition"]),  # cannot be evaluated
        ("now < timestamp('2026-03-05T00:00:00Z')", []),
    ):
        assert slugs(coupon_book(condition={"expression": text}), facts(context=context)) == refusal_slugs


def test_a_condition_may_be_a_tree():
    tree = {"kind": "constant", "type": "bool", "value": False}
    assert slugs(coupon_book(condition={"node": tree})) == ["coupon-book-condition"]
    assert slugs(coupon_book(condition={"node": {**tree, "value": True}})) == []


def test_an_inactive_member_is_refused():
    assert slugs(coupon_book(), facts(is_active=False)) == ["member-inactive"]
    # A member is active by default.
    assert slugs(coupon_book(), MemberFacts(at=NOW)) == []


@pytest.mark.parametrize(
    ("stock", "amount", "is_refused"), [(None, 10, False), (3, 3, False), (3, 4, True), (-1, 1, True)]
)
def test_an_assignment_beyond_the_stock_is_refused(stock, amount, is_refused):
    member_facts = facts(stock_left=None if stock is None else Decimal(stock))
    refusal_slugs = ["coupon-out-of-stock"] if is_refused else []
    for kind in (SINGLE, GENERATED, CODELESS):
        book = coupon_book(type=kind)
        assert slugs(book, member_facts, Attempt(ASSIGN, Decimal(amount))) == refusal_slugs
        assert slugs(book, member_facts, Attempt(USE, Decimal(amount))) == []


@pytest.mark.parametrize(
    ("stock", "amount", "text"),
    [
        (0, 1, "1 coupon was requested, 0 are left."),
        (3, 4, "4 coupons were requested, 3 are left."),
        (-2, 4, "4 coupons were requested, 0 are left."),
    ],
)
def test_the_refusal_names_the_number_that_is_left(stock, amount, text):
    attempt = Attempt(ASSIGN, Decimal(amount))
    [refusal] = exclusions(coupon_book(type=GENERATED), facts(stock_left=Decimal(stock)), attempt)
    assert str(refusal) == text


def test_one_free_code_of_a_list_suffices_for_an_assignment_of_any_amount():
    assert slugs(coupon_book(type=LIST), facts(stock_left=Decimal(1)), Attempt(ASSIGN, Decimal(5))) == []
    assert slugs(coupon_book(type=LIST), facts(stock_left=Decimal(0)), Attempt(ASSIGN)) == ["coupon-out-of-stock"]


def test_the_quota_counts_all_assigned_coupons():
    book = coupon_book(max_assigned_per_member=3)
    for assigned_amount, amount, refusal_slugs in (
        (0, 3, []),
        (2, 1, []),
        (2, 2, ["coupon-quota"]),
        (3, 1, ["coupon-quota"]),
    ):
        assert slugs(book, facts(assigned=Decimal(assigned_amount)), Attempt(ASSIGN, Decimal(amount))) == refusal_slugs
    assert slugs(book, facts(assigned=Decimal(3)), Attempt(USE)) == []


def test_uses_beyond_the_maximum_of_the_period_are_refused():
    book = coupon_book(max_usages_per_period=2, usage_period_type="daily")
    for uses, refusal_slugs in ((0, []), (1, []), (2, ["coupon-usage-limit"])):
        assert slugs(book, facts(used_in_period=Decimal(uses)), Attempt(USE)) == refusal_slugs
        assert slugs(book, facts(used_in_period=Decimal(uses)), Attempt(ASSIGN)) == []


@pytest.mark.parametrize(
    ("discount_so_far", "next_discount", "is_refused"),
    [
        ("9.99", None, False),
        ("10", None, False),
        ("7", "3", False),
        ("7", "3.01", True),
        ("10", "0", False),
        ("11", "0", False),
    ],
)
def test_discounts_beyond_the_maximum_of_the_period_are_refused(discount_so_far, next_discount, is_refused):
    book = coupon_book(max_discount_per_period=Decimal(10), discount_period_type="monthly")
    attempt = Attempt(USE, amount_discounted=None if next_discount is None else Decimal(next_discount))
    refusal_slugs = ["coupon-discount-limit"] if is_refused else []
    assert slugs(book, facts(discounted_in_period=Decimal(discount_so_far)), attempt) == refusal_slugs


def test_a_discount_beyond_the_maximum_of_a_use_is_refused():
    book = coupon_book(max_discount_per_use=Decimal(5))
    assert slugs(book, attempt=Attempt(USE, amount_discounted=Decimal("5.01"))) == [DiscountTooHigh.slug]
    assert slugs(book, attempt=Attempt(USE, amount_discounted=Decimal(5))) == []
    assert slugs(book, attempt=Attempt(USE)) == []


def test_the_points_for_the_purpose_are_required():
    book = coupon_book(assignment_required_points=Decimal(10), usage_required_points=Decimal(5))
    for points, purpose, is_enough in (
        (10, ASSIGN, True),
        (9, ASSIGN, False),
        (5, USE, True),
        (4, USE, False),
        (15, ASSIGN_AND_USE, True),
        (14, ASSIGN_AND_USE, False),
    ):
        refusal_slugs = [] if is_enough else ["insufficient-balance"]
        assert slugs(book, facts(points=Decimal(points)), Attempt(purpose)) == refusal_slugs


def test_all_exclusions_are_listed_in_order_and_the_first_is_raised():
    book = coupon_book(
        publishing_status=ARCHIVED,
        valid_from_date=NOW + MICROSECOND,
        days_of_week=[1],
        day_of_week_schedule={"schedule": [{"day": 1, "from": "09:00", "to": "10:00"}]},
        tier_keys=["gold"],
        audience_keys=["a"],
        condition={"expression": "false"},
        min_order_total=Decimal(30),
        max_assigned_per_member=0,
        max_usages_per_period=0,
        usage_period_type="daily",
        max_discount_per_use=Decimal(1),
        max_discount_per_period=Decimal(1),
        discount_period_type="daily",
        usage_required_points=Decimal(1),
    )
    member_facts = facts(is_active=False, stock_left=Decimal(0))
    attempt = Attempt(ASSIGN_AND_USE, amount_discounted=Decimal(2), order_total=Decimal(29))
    all_exclusions = list(exclusions(book, member_facts, attempt))
    # A book that is archived and not valid yet cannot have these two.
    impossible_slugs = {"coupon-book-not-published", "coupon-book-expired"}
    assert [exclusion.slug for exclusion in all_exclusions] == [
        exclusion.slug for exclusion in EXCLUSIONS if exclusion.slug not in impossible_slugs
    ]
    with pytest.raises(type(all_exclusions[0])):
        refuse_excluded(book, member_facts, attempt)
    with pytest.raises(TierNotEligible):
        refuse_excluded(book, member_facts, attempt, set(EXCLUSIONS[: EXCLUSIONS.index(TierNotEligible)]))


def test_the_bypass_skips_only_the_limits_of_periods():
    book = coupon_book(
        max_usages_per_period=0,
        usage_period_type="daily",
        max_discount_per_period=Decimal(0),
        discount_period_type="daily",
        max_assigned_per_member=0,
        usage_required_points=Decimal(1),
    )
    assert slugs(book, facts(stock_left=Decimal(0)), without=PERIOD_LIMITS) == [
        "coupon-out-of-stock",
        "coupon-quota",
        "insufficient-balance",
    ]


def test_a_list_of_books_excludes_a_member_who_can_neither_be_assigned_nor_use_a_coupon():
    book = coupon_book(
        max_assigned_per_member=1, assignment_required_points=Decimal(10), usage_required_points=Decimal(5)
    )

    def of_list(**fields):
        return [exclusion.slug for exclusion in exclusions_from_list(book, facts(**fields))]

    # An assignment and a use cost 10 + 5 points.
    assert of_list(points=Decimal(14)) == ["insufficient-balance"]
    assert of_list(points=Decimal(15)) == []
    assert of_list(points=Decimal(15), assigned=Decimal(1)) == ["coupon-quota"]
    # A member with an unused coupon needs only the 5 points of a use.
    assert of_list(points=Decimal(5), assigned=Decimal(1), unused=Decimal(1)) == []
    assert of_list(points=Decimal(5), assigned=Decimal(1), unused=Decimal(2)) == []
    assert of_list(points=Decimal(5), assigned=Decimal(1), unused=Decimal("0.5")) == [
        "coupon-quota",
        "insufficient-balance",
    ]
    assert of_list(points=Decimal(5), unused=Decimal(1), stock_left=Decimal(0)) == [OutOfStock.slug]


@pytest.mark.parametrize(
    ("book_type", "unused", "is_excluded"),
    [
        (CODELESS, Decimal(0), True),
        (SINGLE, Decimal(0), True),
        (CODELESS, Decimal(1), False),
        (LIST, Decimal(0), False),
        (GENERATED, Decimal(0), False),
    ],
)
def test_a_list_of_books_excludes_a_shared_coupon_of_which_only_locked_uses_are_left(book_type, unused, is_excluded):
    book = coupon_book(type=book_type, coupon_count=1)
    listed_exclusions = exclusions_from_list(book, facts(has_locks=True, unused=unused))
    assert [exclusion.slug for exclusion in listed_exclusions] == (["coupon-locked"] if is_excluded else [])


@pytest.mark.parametrize(
    "fields",
    [
        {"valid_from_date": NOW + MICROSECOND},
        {"audience_keys": ["vip"]},
        {"tier_keys": ["gold"]},
        {"max_usages_per_period": 0, "usage_period_type": "daily"},
        {"usage_required_points": Decimal(1)},
    ],
)
def test_the_condition_of_a_book_is_evaluated_only_if_all_other_rules_permit_a_use(fields):
    passed_deadline = Deadline(0, lambda: 0.0)
    condition = {"expression": "true"}
    assert not is_usable(coupon_book(condition=condition, **fields), facts(), deadline=passed_deadline)
    assert not is_usable(coupon_book(condition=condition), facts(stock_left=Decimal(0)), deadline=passed_deadline)
    with pytest.raises(TimeExceeded):
        is_usable(coupon_book(condition=condition), facts(), deadline=passed_deadline)


def test_the_condition_of_a_book_decides_if_all_other_rules_permit_a_use():
    assert is_usable(coupon_book(condition={"expression": "true"}), facts())
    assert not is_usable(coupon_book(condition={"expression": "false"}), facts())


def test_the_stock_depends_on_the_type_of_the_book():
    assert stock_left(coupon_book(type=LIST, max_coupon_count=1), unassigned=7) == 7
    assert stock_left(coupon_book(type=LIST)) == 0
    for type_ in (SINGLE, GENERATED, CODELESS):
        assert stock_left(coupon_book(type=type_, coupon_count=1)) is None
        limited_book = coupon_book(type=type_, coupon_count=1, max_coupon_count=5, total_assigned=Decimal(2))
        assert stock_left(limited_book) == 5 - 2
    assert stock_left(coupon_book(type=SINGLE)) == 0
    single_book = coupon_book(
        type=SINGLE, coupon_count=1, max_coupon_count=5, max_assigned_per_coupon=4, total_assigned=Decimal(2)
    )
    # The lower of the two maxima counts.
    assert stock_left(single_book) == 4 - 2
