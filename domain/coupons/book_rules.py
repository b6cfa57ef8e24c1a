"""Validation of coupon books and of changes of their status (integration 2.1 and 3)."""

from collections.abc import Mapping
from typing import Any

from domain.calendar import zone_faults
from domain.coupons.books import ARCHIVED, GENERATED, BookArchived, CouponBook, check_pattern
from domain.coupons.conditions import check_condition
from domain.hours import hours_faults
from domain.problems import FieldFault, InvalidRequest

# Each limit of a period with its period: the two fields, each followed by its name in the API.
_LIMITS_WITH_PERIODS = (
    ("max_usages_per_period", "maxUsagesPerPeriod", "usage_period_type", "usagePeriodType"),
    ("max_discount_per_period", "maxDiscountPerPeriod", "discount_period_type", "discountPeriodType"),
)
_POINTS = ("assignment_required_points", "usage_required_points")


def check_book(values: Mapping[str, Any]) -> None:
    """Refuse a book whose fields contradict each other; `values` has all of its fields.

    Raises InvalidRequest with every fault.
    """
    faults: list[FieldFault] = []
    begin, end = values["valid_from_date"], values["valid_to_date"]
    if begin is not None and end is not None and end < begin:
        faults.append(FieldFault("validToDate is before validFromDate", pointer="/validToDate"))
    for limit, limit_name, period, period_name in _LIMITS_WITH_PERIODS:
        if values[limit] is not None and values[period] is None:
            faults.append(FieldFault(f"{limit_name} needs {period_name}", pointer=f"/{period_name}"))
        if values[period] is not None and values[limit] is None:
            faults.append(FieldFault(f"{period_name} needs {limit_name}", pointer=f"/{limit_name}"))
    faults += zone_faults(values["timezone"])
    faults += hours_faults(values["day_of_week_schedule"], has_days_of_week=bool(values["days_of_week"]))
    if values["required_points_config"] is None and any(values[name] is not None for name in _POINTS):
        detail = "assignmentRequiredPoints and usageRequiredPoints need requiredPointsConfig"
        faults.append(FieldFault(detail, pointer="/requiredPointsConfig"))
    if values["is_value_coupon"] and not values["face_value"]:
        detail = "faceValue is needed, and more than 0: it is the value of a coupon while nothing of it is used"
        faults.append(FieldFault(detail, pointer="/faceValue"))
    if values["code_pattern"] is not None and values["type"] != GENERATED:
        detail = f"codePattern is for books of the type {GENERATED}, not of the type {values['type']}"
        faults.append(FieldFault(detail, pointer="/codePattern"))
    for check in (lambda: check_condition(values["condition"]), lambda: check_pattern(values["code_pattern"] or {})):
        try:
            check()
        except InvalidRequest as refusal:
            faults.extend(refusal.faults)
    if faults:
        raise InvalidRequest(faults)


def refuse_archived(book: CouponBook) -> None:
    """Raise BookArchived for an archived book: archiving is final (integration 3)."""
    if book.publishing_status == ARCHIVED:
        raise BookArchived(f"The coupon book {book.name} is archived.")
