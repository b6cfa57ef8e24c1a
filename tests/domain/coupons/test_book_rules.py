"""Fields of a coupon book that contradict each other, and books that are archived."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from domain.coupons.book_rules import check_book, refuse_archived
from domain.coupons.books import BookArchived
from domain.problems import InvalidRequest
from tests.builders.coupon_values import coupon_book

MORNING = datetime(2026, 3, 4, 8, tzinfo=UTC)
ACCOUNT = {"ledgerAccountKey": "points"}


def faults(**changes):
    """The pointer and the text of every fault of a book that restricts nothing, but for `changes`."""
    values = asdict(coupon_book()) | changes
    try:
        check_book(values)
    except InvalidRequest as refusal:
        return [(fault.pointer, fault.detail) for fault in refusal.faults]
    return []


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"valid_from_date": MORNING},
        {"valid_to_date": MORNING},
        {"valid_from_date": MORNING, "valid_to_date": MORNING},
        {"max_usages_per_period": 2, "usage_period_type": "day"},
        {"max_discount_per_period": Decimal(5), "discount_period_type": "day"},
        {"timezone": "America/Sao_Paulo"},
        {"assignment_required_points": Decimal(5), "required_points_config": ACCOUNT},
        {"required_points_config": ACCOUNT},
        {"type": "generated", "code_pattern": {"prefix": "A-"}},
        {"condition": {"expression": "balances.points > 5"}},
    ],
)
def test_a_book_without_contradictions_is_accepted(changes):
    assert faults(**changes) == []


@pytest.mark.parametrize(
    ("changes", "pointer", "detail"),
    [
        (
            {"valid_from_date": MORNING, "valid_to_date": MORNING - timedelta(seconds=1)},
            "/validToDate",
            "validToDate is before validFromDate.",
        ),
        ({"max_usages_per_period": 2}, "/usagePeriodType", "maxUsagesPerPeriod needs usagePeriodType."),
        ({"usage_period_type": "day"}, "/maxUsagesPerPeriod", "usagePeriodType needs maxUsagesPerPeriod."),
        (
            {"max_discount_per_period": Decimal(5)},
            "/discountPeriodType",
            "maxDiscountPerPeriod needs discountPeriodType.",
        ),
        (
            {"discount_period_type": "day"},
            "/maxDiscountPerPeriod",
            "discountPeriodType needs maxDiscountPerPeriod.",
        ),
        (
            {"assignment_required_points": Decimal(5)},
            "/requiredPointsConfig",
            "assignmentRequiredPoints and usageRequiredPoints need requiredPointsConfig.",
        ),
        (
            {"usage_required_points": Decimal(0)},
            "/requiredPointsConfig",
            "assignmentRequiredPoints and usageRequiredPoints need requiredPointsConfig.",
        ),
        (
            {"type": "list", "code_pattern": {"prefix": "A-"}},
            "/codePattern",
            "codePattern is for books of the type generated, not of the type list.",
        ),
    ],
)
def test_a_contradiction_is_refused(changes, pointer, detail):
    assert faults(**changes) == [(pointer, detail)]


def test_an_unknown_time_zone_a_condition_and_a_pattern_are_refused_at_their_fields():
    assert [pointer for pointer, _ in faults(timezone="Mars/Olympus")] == ["/timezone"]
    assert [pointer for pointer, _ in faults(condition={"expression": "1 +"})] == ["/condition/expression"]
    book_with_weak_codes = {"type": "generated", "code_pattern": {"length": 2}}
    assert [pointer for pointer, _ in faults(**book_with_weak_codes)] == ["/codePattern/length"]


def test_all_contradictions_are_refused_together():
    changes = {"max_usages_per_period": 2, "discount_period_type": "day", "condition": {"expression": "1 +"}}
    assert [pointer for pointer, _ in faults(**changes)] == [
        "/usagePeriodType",
        "/maxDiscountPerPeriod",
        "/condition/expression",
    ]


def test_an_archived_book_is_refused():
    with pytest.raises(BookArchived, match=r"The coupon book Free coffee is archived\."):
        refuse_archived(coupon_book(publishing_status="archived"))
    for status in ("draft", "published", "disabled"):
        refuse_archived(coupon_book(publishing_status=status))
