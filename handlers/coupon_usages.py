"""Coupons assigned, used and reverted, and their lists (integration 4.2, administration "Coupon books and codes").

An operation with a `batch` returns only a request; the batch handler carries out the requests of all calls.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from domain.coupons.books import Coupon, CouponBook
from domain.coupons.usages import CouponUsage
from domain.members import Member
from domain.problems import FieldFault, InvalidRequest
from domain.programs import LoyaltyProgram
from handlers.audit_trail import Audited
from handlers.call import ADMINISTRATION, INTEGRATION, Call
from handlers.messages.base import wrapped
from handlers.messages.lists import listed, listed_by_cursor
from handlers.operation import BatchHandler, declare_get, operation
from handlers.schemas.coupon_usages import (
    ADMINISTRATION_ASSIGNMENT,
    ADMINISTRATION_BODY,
    INTEGRATION_BODY,
    MEMBER_COUPON,
    USAGE,
    AssignmentBatch,
    CouponBody,
    UsageReversal,
    batch_assignment_response,
    command_of,
    reverted_code_response,
    single_usage_list,
    totals,
    usage_list,
    usage_with_message,
)
from handlers.services import references
from handlers.services.coupons.assign_and_use import CouponRequest, assign_coupons, use_coupons
from handlers.services.coupons.assign_to_members import AssignmentOutcome, assign_to_members
from handlers.services.coupons.revert import RevertedCode, UsageToRevert, revert_code, revert_usages
from persistence.coupons import member_coupons, usages
from persistence.coupons.member_coupons import AmountTotals, MemberCouponEntry
from persistence.paging import Paged

_AUDITED = Audited("coupon-usage", "coupon_usage_id", USAGE)
_AUDITED_SEVERAL = replace(_AUDITED, records=iter)
_AUDITED_BATCH = replace(
    _AUDITED, records=lambda outcomes: (outcome.usage for outcome in outcomes if outcome.usage is not None)
)
_AUDITED_REVERSALS = replace(
    _AUDITED, records=lambda results: (outcome.reversal for outcome in results.outcomes if outcome.reversal is not None)
)


def _batch_size(request: CouponRequest) -> int | None:
    """The number of coupons that a call requests; None for a capture, which cannot share its batch."""
    return None if request.command.pending_burn_id is not None else request.command.count


_ASSIGNED = usage_with_message("The coupon was assigned.")
_USE, _ASSIGN = BatchHandler(use_coupons, _batch_size), BatchHandler(assign_coupons, _batch_size)


@operation(
    "useCoupon",
    body={INTEGRATION: INTEGRATION_BODY, ADMINISTRATION: ADMINISTRATION_BODY},
    response={INTEGRATION: usage_with_message("The coupon was used."), ADMINISTRATION: single_usage_list},
    audit=_AUDITED,
    batch=_USE,
)
def use_coupon(call: Call, book: CouponBook, body: CouponBody, member: Member | None = None) -> CouponRequest:
    """Use one coupon of a book; the path or the body names the member."""
    return CouponRequest(member or references.member(call, body.member_id), book, command_of(body))


@operation("assignCoupons", body=ADMINISTRATION_ASSIGNMENT, response=usage_list, audit=_AUDITED_SEVERAL, batch=_ASSIGN)
def assign_coupons_of_book(call: Call, book: CouponBook, body: CouponBody) -> CouponRequest:
    """Assign several coupons of a book to one member."""
    return CouponRequest(references.member(call, body.member_id), book, command_of(body))


@operation("batchAssignCoupons", response=batch_assignment_response, audit=_AUDITED_BATCH)
def batch_assign_coupons(call: Call, book: CouponBook, body: AssignmentBatch) -> list[AssignmentOutcome]:
    """Assign a coupon to each of many members."""
    faults = [
        FieldFault(f"items[{index}] has neither a memberId nor a loyaltyMemberId", pointer=f"/items/{index}")
        for index, item in enumerate(body.items)
        if item.member_id is None and item.loyalty_member_id is None
    ]
    if faults:
        raise InvalidRequest(faults)
    return assign_to_members(call, book, body.items, body.points_override)


@operation(
    "useCouponCode", body=ADMINISTRATION_BODY, response=wrapped("couponUsage", USAGE), audit=_AUDITED, batch=_USE
)
def use_coupon_code(call: Call, book: CouponBook, coupon: Coupon, body: CouponBody) -> CouponRequest:
    """Use the coupon with this code."""
    command = command_of(body, coupon_id=coupon.coupon_id)
    return CouponRequest(references.member(call, body.member_id), book, command)


@operation(
    "assignCouponCode", body=ADMINISTRATION_ASSIGNMENT, response=usage_list, audit=_AUDITED_SEVERAL, batch=_ASSIGN
)
def assign_coupon_code(call: Call, book: CouponBook, coupon: Coupon, body: CouponBody) -> CouponRequest:
    """Assign the coupon with this code."""
    command = command_of(body, coupon_id=coupon.coupon_id)
    return CouponRequest(references.member(call, body.member_id), book, command)


@operation("revertCouponUsage", response=single_usage_list, audit=_AUDITED, batch=BatchHandler(revert_usages))
def revert_coupon_usage(call: Call, coupon_usage: CouponUsage, body: UsageReversal) -> UsageToRevert:
    """Reverse an assignment or a use; the response has the reversal."""
    return UsageToRevert(coupon_usage, body.force_revert)


@operation(
    "assignCoupon",
    body=INTEGRATION_BODY,
    response=lambda usages: _ASSIGNED(usages[0]),
    audit=_AUDITED_SEVERAL,
    batch=_ASSIGN,
)
def assign_coupon(call: Call, member: Member, book: CouponBook, body: CouponBody) -> CouponRequest:
    """Assign one coupon of a book to the member."""
    return CouponRequest(member, book, command_of(body))


@operation("listMemberCoupons", response={surface: listed(shape) for surface, shape in MEMBER_COUPON.items()})
def list_member_coupons(
    call: Call, member: Member, query: Mapping[str, Any], program: LoyaltyProgram | None = None
) -> Paged[MemberCouponEntry]:
    """A page of the member's coupons; if the path names a program, only those of the program's books."""
    program_id = None if program is None else program.loyalty_program_id
    return member_coupons.find_page(call.db, member, query, program_id, call.now)


@operation("listMemberCouponUsages", response=listed_by_cursor(USAGE))
def list_member_coupon_usages(call: Call, member: Member, query: Mapping[str, Any]) -> Paged[CouponUsage]:
    """A page of the member's assignments, uses and reversals."""
    return usages.find_page(call.db, member, query, call.now)


declare_get("getMemberCouponUsage", "coupon_usage", usage_with_message("This is the coupon usage."))


@operation(
    "revertMemberCouponUsage",
    response=usage_with_message("The coupon usage was reverted."),
    audit=_AUDITED,
    batch=BatchHandler(revert_usages),
)
def revert_member_coupon_usage(call: Call, member: Member, coupon_usage: CouponUsage) -> UsageToRevert:
    """Reverse one usage of the member; the response has the reversal."""
    return UsageToRevert(coupon_usage)


@operation("revertMemberCouponCode", response=reverted_code_response, audit=_AUDITED_REVERSALS)
def revert_member_coupon_code(call: Call, member: Member, coupon: Coupon, query: Mapping[str, Any]) -> RevertedCode:
    """Reverse the member's last use of a code, or with `revertAll` all uses."""
    return revert_code(call, member, coupon, all_of_them=query["revertAll"])


@operation("getMemberCouponTotals", response=totals)
def get_member_coupon_totals(
    call: Call, program: LoyaltyProgram, member: Member, query: Mapping[str, Any]
) -> AmountTotals:
    """The amounts that the member used of a program's books, and that were assigned to the member."""
    return member_coupons.find_totals(call.db, member, program.loyalty_program_id, query)
