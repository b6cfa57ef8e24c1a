"""Coupon usages and members' coupons on the wire (integration 2.3 and 4.2, administration "Coupon books and codes")."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any

from domain.coupons.usages import CouponUsage
from domain.problems import FieldFault, InvalidRequest
from handlers.messages.base import Body, Nested, Shape, WireSchema, wrapped_list
from handlers.messages.json_text import exact_number
from handlers.messages.lists import results
from handlers.schemas.coupon_books import BOOK
from handlers.services.coupons.assign_and_use import CouponCommand
from handlers.services.coupons.assign_to_members import AssignmentOutcome, BatchItem
from handlers.services.coupons.revert import RevertedCode, RevertOutcome
from persistence.coupons.member_coupons import AmountTotals, MemberCouponEntry
from persistence.rows import fields_of

SUCCESS, WARNING = "success", "warning"
_NOT_SHOWN = ("organization_id", "coupon_lot_id", "description", "tags", "loyalty_event_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class CouponBody(CouponCommand):
    """A request to use or assign coupons; fields that an operation does not offer keep their defaults.

    It has the fields of a command and further fields, from which `command_of` takes the codes and keys.
    """

    member_id: int | None = None
    system_unique_key: str | None = None
    system_unique_keys: Sequence[str] = ()
    code: str | None = None
    number_of_codes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _IntegrationBody(CouponBody):
    custom_attributes: Mapping[str, Any] | None = field(default=None, metadata={"wire": "usageData"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _AdministrationBody(CouponBody):
    member_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _AdministrationAssignment(_AdministrationBody):
    expires_at: datetime | None = field(default=None, metadata={"wire": "expiredAt"})
    is_strict: bool = field(default=False, metadata={"wire": "strictMode"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentBatch:
    """The members to whom coupons are assigned; `points_override` is the price in points for each member."""

    items: Sequence[BatchItem]
    points_override: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReversal:
    """The request to reverse a usage; `force_revert` reverses an assignment even if a part of it is used."""

    force_revert: bool = False


USAGE = Shape(CouponUsage, without=_NOT_SHOWN)
INTEGRATION_BODY = Body(_IntegrationBody)
ADMINISTRATION_BODY = Body(_AdministrationBody)
ADMINISTRATION_ASSIGNMENT = Body(_AdministrationAssignment)


def _member_coupon(surface: str) -> Shape:
    """The shape of a member's coupon, with its book in the shape that books have on this surface."""

    class _WithBook(WireSchema):
        coupon_book = Nested(BOOK[surface])

    return Shape(_WithBook, MemberCouponEntry)


MEMBER_COUPON = {surface: _member_coupon(surface) for surface in BOOK}


_COMMAND_FIELDS = fields_of(CouponCommand)
_command_values = attrgetter(*_COMMAND_FIELDS)


def command_of(body: CouponBody, *, coupon_id: int | None = None) -> CouponCommand:
    """The command of a body of either interface; `coupon_id` is the coupon of the path, if there is one."""
    codes = tuple(body.codes or ([body.code] if body.code else []))
    keys = tuple(body.system_unique_keys or ([body.system_unique_key] if body.system_unique_key else []))
    count = body.number_of_codes or len(codes) or 1
    faults = []
    if codes and count != len(codes):
        detail = f"numberOfCodes is {count}, but the number of codes is {len(codes)}"
        faults.append(FieldFault(detail, pointer="/numberOfCodes"))
    if keys and count != len(keys):
        detail = f"systemUniqueKeys has {len(keys)} keys for {count} codes"
        faults.append(FieldFault(detail, pointer="/systemUniqueKeys"))
    if faults:
        raise InvalidRequest(faults)
    values = dict(zip(_COMMAND_FIELDS, _command_values(body), strict=True))
    values |= {"codes": codes, "keys": keys, "count": count, "coupon_id": coupon_id, "tags": tuple(body.tags)}
    return CouponCommand(**values)


def usage_with_message(message: str) -> Callable[[CouponUsage], dict[str, Any]]:
    """A function that renders `{status, message, couponUsage}`."""
    return lambda usage: {"status": SUCCESS, "message": message, "couponUsage": USAGE(usage)}


usage_list, single_usage_list = results(USAGE, "couponUsages"), wrapped_list("couponUsages", USAGE)


def reverted_code_response(reverted_code: RevertedCode) -> dict[str, Any]:
    """The response to a reverted code: the reversal of the newest use, and the outcomes of all uses in `details`.

    Its status is a warning if a use could not be reverted.
    """
    outcomes = reverted_code.outcomes
    reversals = [outcome.reversal for outcome in outcomes if outcome.reversal is not None]
    failure_count = len(outcomes) - len(reversals)
    uses_were = "1 use was" if len(reversals) == 1 else f"{len(reversals)} uses were"
    failure_text = f", {failure_count} could not be reverted" if failure_count else ""
    message = f"{uses_were} reverted{failure_text}."
    return {
        "status": WARNING if failure_count else SUCCESS,
        "message": message,
        # At least one use was reverted: else `revert_code` raises a refusal.
        "couponUsage": USAGE(reversals[0]),
        "details": [_revert_detail(outcome) for outcome in outcomes],
        "remainingUsages": reverted_code.remaining_count,
    }


def _revert_detail(outcome: RevertOutcome) -> dict[str, Any]:
    """The outcome of one use, with an error if it could not be reverted."""
    reversal = outcome.reversal
    detail = {
        "couponUsageKey": outcome.usage.coupon_usage_key,
        "status": "failed" if reversal is None else "reverted",
        "reversalUsageId": None if reversal is None else reversal.coupon_usage_id,
        "reversalUsageKey": None if reversal is None else reversal.coupon_usage_key,
    }
    return detail if outcome.refusal is None else {**detail, "error": outcome.refusal.as_problem()}


def batch_assignment_response(outcomes: Sequence[AssignmentOutcome]) -> dict[str, Any]:
    """The response to a batch of assignments: the outcome of each item, and their numbers."""
    success_count = sum(outcome.usage is not None for outcome in outcomes)
    return {
        "results": [_batch_result(outcome) for outcome in outcomes],
        "successCount": success_count,
        "failureCount": len(outcomes) - success_count,
        "totalAttempted": len(outcomes),
    }


def _batch_result(outcome: AssignmentOutcome) -> dict[str, Any]:
    """The result for one member of an assignment to many."""
    result: dict[str, Any] = {
        "memberId": outcome.member_id,
        "systemUniqueKey": outcome.system_unique_key,
        "status": "failed" if outcome.usage is None else "assigned",
        "couponUsageId": None if outcome.usage is None else outcome.usage.coupon_usage_id,
        "couponBookKey": None if outcome.usage is None else outcome.usage.coupon_book_key,
        "code": None if outcome.usage is None else outcome.usage.code,
    }
    return result if outcome.refusal is None else {**result, "error": outcome.refusal.as_problem()}


def totals(amounts: AmountTotals) -> Mapping[str, Any]:
    """The response with the amounts that a member used and was assigned: `{amountUsed, amountAssigned}`."""
    return {"amountUsed": exact_number(amounts.used), "amountAssigned": exact_number(amounts.assigned)}
